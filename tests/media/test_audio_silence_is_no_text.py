"""What is said of audio in which nothing is said, at the endpoint of transcriptions."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.audio_channels import recording, tone
from support.audio_files import encode_audio, noise
from support.audio_gateways import VOCABULARY, audio_gateway
from support.cases import cases
from support.gateways import MODEL

NO_SPEECH = VOCABULARY.index("<|nospeech|>")
SHARE = 0.75


class Inventive:
    """An engine that says a word of all audio, or none, and how little it believes that."""

    def __init__(self, said: str = "red") -> None:
        self.said = said
        self.answered = 0
        self.questions: list[str] = []

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        del request
        self.answered += 1
        ids = (VOCABULARY.index(self.said),) if self.said else ()
        yield Text(self.said, len(ids), ids=ids)
        yield Ended(FinishReason.STOP, len(ids))

    async def first_logits(self, request: EngineRequest) -> NDArray[np.float32]:
        """Give the token of silence its share."""
        self.questions.append(request.prompt)
        share = np.full(len(VOCABULARY), (1 - SHARE) / (len(VOCABULARY) - 1))
        share[NO_SPEECH] = SHARE
        return np.log(share).astype(np.float32)

    async def is_ready(self) -> bool:
        return True


async def _transcribed(folder: Path, engine: Inventive, file: bytes, form: str) -> httpx.Response:
    gateway = audio_gateway(folder, engine)
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gateway.app), base_url="http://gateway"
        ) as client:
            return await client.post(
                "/v1/audio/transcriptions",
                data={"model": MODEL, "response_format": form},
                files={"file": ("a.wav", file)},
                timeout=60,
            )
    finally:
        gateway.close()


SILENT = tone() * 0


@cases(
    "file",
    {
        "zeros": recording([SILENT]),
        "flac-of-zeros": recording([SILENT, SILENT], "flac", "flac"),
        "one-step": recording([SILENT + 0.9 / 32_768], "wav", "pcm_f32le"),
        "opus-of-zeros": recording([SILENT], "ogg", "libopus"),
    },
)
@pytest.mark.parametrize(
    ("form", "said"),
    [("json", None), ("text", "\n"), ("verbose_json", None), ("srt", ""), ("vtt", "WEBVTT\n\n")],
)
async def test_digital_silence(tmp_path: Path, file: bytes, form: str, said: str | None) -> None:
    """No word is invented: the model is not run."""
    engine = Inventive()
    answer = await _transcribed(tmp_path, engine, file, form)

    assert answer.status_code == 200
    assert (answer.text if said is not None else answer.json()["text"]) == (said or "")
    assert engine.answered == 0


async def test_how_likely_silence_is(tmp_path: Path) -> None:
    """`no_speech_prob` is the share of its token in the first step behind the start."""
    engine = Inventive()
    answer = await _transcribed(tmp_path, engine, encode_audio(noise(0.4, 1)), "verbose_json")
    body = answer.json()

    assert [one["no_speech_prob"] for one in body["segments"]] == [pytest.approx(SHARE, abs=1e-4)]
    assert engine.questions[-1] == "<|startoftranscript|>"
    assert engine.answered == 1


async def test_other_formats_do_not_compute_it(tmp_path: Path) -> None:
    """It takes a run of the encoder, and they have no place for it."""
    engine = Inventive()
    await _transcribed(tmp_path, engine, encode_audio(noise(0.4, 1)), "srt")

    assert len(engine.questions) == 1  # the language


async def test_segments_without_text_have_a_score(tmp_path: Path) -> None:
    """`avg_logprob` of no tokens is that of certainty, and not null: typed clients read it."""
    file = encode_audio(noise(0.3, seed=1))
    answer = await _transcribed(tmp_path, Inventive(said=""), file, "verbose_json")

    (segment,) = answer.json()["segments"]
    assert (segment["text"], segment["avg_logprob"]) == ("", 0)
