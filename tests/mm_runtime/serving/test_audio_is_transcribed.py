"""The real server and gateway with a Whisper: what is written down is what transformers writes."""

import queue
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from numpy.typing import NDArray
from openai import BadRequestError, OpenAI
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.generation import GenerationMixin

from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.audio.tones import tone
from support.audio_files import RATE, encode_audio, noise
from support.build_plans import serving_plan
from support.cases import cases
from support.families import texts
from support.families.pipeline import build
from support.families.words import END, tokenizer
from support.real_gateway import RealGateway, run_pair
from support.reports import report_of
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

ANSWER = 12
PREFIX = "<|startoftranscript|><|{}|><|{}|><|notimestamps|>"
DEADLINE_SECONDS = 60


@dataclass(frozen=True)
class Ears:
    """A server and a gateway of a Whisper, and its checkpoint in transformers."""

    model: WhisperForConditionalGeneration
    extractor: WhisperFeatureExtractor
    pair: RealGateway
    openai: OpenAI
    engine: EngineDirectory

    def received(self, audio: NDArray[np.float32]) -> torch.Tensor:
        found = self.extractor(audio, sampling_rate=RATE, return_tensors="pt").input_features
        assert isinstance(found, torch.Tensor)
        return found

    def detected(self, audio: NDArray[np.float32]) -> str:
        (found,) = self.model.detect_language(input_features=self.received(audio)).tolist()
        named = {at: token for token, at in self.model.generation_config.lang_to_id.items()}
        return str(named[found][2:-2])

    def expected(
        self,
        audio: NDArray[np.float32],
        *,
        language: str = "en",
        task: str = "transcribe",
        tokens: int = ANSWER,
    ) -> str:
        words = tokenizer(texts.RECEIVED, texts.TIMES)
        prefix = words(PREFIX.format(language, task), add_special_tokens=False)["input_ids"]
        received = self.received(audio)
        # Whisper's own generate() cuts audio into windows; this is the one below it.
        ids = GenerationMixin.generate(
            self.model,
            input_features=received,
            decoder_input_ids=torch.tensor([prefix]),
            max_new_tokens=tokens,
            do_sample=False,
        )[0].tolist()[len(prefix) :]
        ids = ids[: ids.index(END)] if END in ids else ids
        return str(words.decode(ids, skip_special_tokens=True))

    def query(self, model: str, output: str, tensors: list[tuple[str, str, Any]]) -> list[str]:
        inputs = []
        for name, kind, value in tensors:
            array = np.array(value)[None] if np.ndim(value) else np.array([[value]])
            array = array.astype(object if kind == "BYTES" else array.dtype)
            inputs.append(triton.InferInput(name, list(array.shape), kind))
            inputs[-1].set_data_from_numpy(array)
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        found = []
        with triton.InferenceServerClient(self.pair.triton_grpc) as client:
            client.start_stream(callback=lambda result, error: answers.put((result, error)))
            client.async_stream_infer(model, inputs, enable_empty_final_response=True)
            last = False
            while not last:
                result, error = answers.get(timeout=DEADLINE_SECONDS)
                if error:
                    raise error
                response = result.get_response()
                if response.outputs:
                    found.append(result.as_numpy(output).reshape(-1)[0].decode())
                last = response.parameters["triton_final_response"].bool_param
            client.stop_stream()
        return found


@pytest.fixture(scope="module")
def ears(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ears]:
    folder = tmp_path_factory.mktemp("ears")
    checkpoint = texts.write("whisper", folder / "checkpoint")
    directory = build(checkpoint, folder / "store", evaluated=True)
    serving = folder / "plan.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint, bls_instances=1).to_json())
    with (
        run_pair(BuiltEngine(directory.root, serving), folder) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        model = WhisperForConditionalGeneration.from_pretrained(checkpoint).eval()
        extractor = WhisperFeatureExtractor.from_pretrained(checkpoint)
        yield Ears(model, extractor, pair, openai, directory)


def written(seed: int, seconds: float = 0.8) -> NDArray[np.float32]:
    steps = (noise(seconds, seed=seed) * 32768).astype(np.int16)
    kept: NDArray[np.float32] = steps / np.float32(32768)
    return kept


@cases("seconds", {"short": 0.3, "full-window": 1.0})
def test_triton(ears: Ears, seconds: float) -> None:
    audio = noise(seconds, seed=1)
    expected = ears.expected(audio)
    wav = ("WAV", "FP32", audio)
    tokens = ("max_tokens", "INT32", np.int32(ANSWER))
    assert [expected] == ears.query("ensemble", "text_output", [wav, tokens])
    streamed = ears.query("ensemble", "text_output", [wav, tokens, ("stream", "BOOL", True)])
    assert expected == "".join(streamed)
    # As upstream's: no number of tokens, and each response of a stream repeats the entire text.
    longer = np.concatenate((audio, noise(0.2, seed=9)))
    requested = [
        ("TEXT_PREFIX", "BYTES", PREFIX.format("de", "transcribe").encode()),
        ("WAV", "FP32", longer),
        ("WAV_LENS", "INT32", np.int32(len(audio))),
    ]
    reported = ears.query("whisper_bls", "TRANSCRIPTS", requested)
    assert ears.expected(audio, language="de", tokens=60) == reported[-1]
    assert all(later.startswith(earlier) for earlier, later in pairwise(reported))


LONG_SECONDS = 3.7
ANSWER_TOKENS = 60
"""Tokens of an answer to one window; the longest prefix has four."""


def long_form(
    ears: Ears, audio: NDArray[np.float32], language: str, **options: Any
) -> tuple[str, list[Any]]:
    words = tokenizer(texts.RECEIVED, texts.TIMES)
    found = ears.model.generate(
        ears.extractor(
            audio, sampling_rate=RATE, return_tensors="pt", truncation=False, padding="longest"
        ).input_features,
        language=language,
        task="transcribe",
        return_timestamps=True,
        return_segments=True,
        **options,
    )
    segments = [
        (round(float(one["start"]), 3), round(float(one["end"]), 3), one["tokens"].tolist())
        for one in found["segments"][0]
    ]
    said = [token for *_, tokens in segments for token in tokens]
    return str(words.decode(said, skip_special_tokens=True)), segments


def in_order(segments: Any) -> list[Any]:
    return [(one.start, one.end, one.tokens) for one in segments]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de"])
def test_longer_audio(ears: Ears, language: str) -> None:
    """Windows follow each other as in transformers: segments, subtitles, a stream."""
    audio = written(5, LONG_SECONDS)
    text, segments = long_form(ears, audio, language, max_new_tokens=ANSWER_TOKENS + 1)
    create = ears.openai.audio.transcriptions.create
    requested: dict[str, Any] = {
        "file": ("audio.flac", encode_audio(audio, "flac", "flac")),
        "model": ears.pair.model,
        "language": language,
    }
    verbose = create(
        **requested, response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert create(**requested).text == text
    assert (verbose.text, float(verbose.duration)) == (text, LONG_SECONDS)
    assert in_order(verbose.segments) == segments
    assert len(segments) > ceil(LONG_SECONDS)
    assert all(one.avg_logprob < 0 <= one.compression_ratio for one in verbose.segments)
    subtitles = create(**requested, response_format="srt")
    assert subtitles.count(" --> ") == len(segments)
    vtt = create(**requested, response_format="vtt")
    assert vtt.startswith(
        f"WEBVTT\n\n00:00:0{segments[0][0]:.3f} --> 00:00:0{segments[0][1]:.3f}\n"
    )
    events = list(create(**requested, stream=True))
    assert "".join(one.delta for one in events[:-1]).strip() == events[-1].text == text
    # Each window is a request of its own: all of the text in one delta would be no stream.
    assert len(events[:-1]) > 1


def test_parameters(ears: Ears) -> None:
    """Those that draw tokens are rows of `support.vllm_requests.transcriptions`."""
    create, audio = ears.openai.audio.transcriptions.create, written(4)
    requested: dict[str, Any] = {
        "file": encode_audio(audio),
        "model": ears.pair.model,
        "language": "en",
    }
    plain = create(**requested).text
    fifth = plain.split()[4]
    stopped = create(**requested, extra_body={"stop": [fifth]}).text
    assert stopped == plain[: plain.index(fifth)].strip()
    for one in ("max_tokens", "max_completion_tokens"):
        cut = create(**requested, extra_body={one: 5}).text
        assert cut == ears.expected(audio, tokens=5)
        assert cut != plain
    both = {"max_tokens": 50, "max_completion_tokens": 5}
    assert create(**requested, extra_body=both).text == cut
    for label in ({"n": 1}, {"user": "ann"}, {"cache_salt": "ours"}):
        assert create(**requested, extra_body=label).text == plain
    for fields, words in (
        ({"stream_options": "{}"}, "events of a transcription say no usage"),
        ({"n": 2}, "`n` is invalid: input should be less than or equal to 1"),
        ({"logit_bias": "{}"}, "`logit_bias` is unknown here"),
    ):
        with pytest.raises(BadRequestError, match=words):
            create(**requested, extra_body=fields)


def test_openai(ears: Ears) -> None:
    audio = written(4)
    expected = ears.expected(audio)
    german = ears.expected(audio, language="de")
    file = ("audio.wav", encode_audio(audio))
    requested: dict[str, Any] = {"model": ears.pair.model, "extra_body": {"max_tokens": ANSWER}}
    create = ears.openai.audio.transcriptions.create
    assert ears.detected(audio) == "en"
    complete = create(file=file, **requested)
    assert (expected, 1) == (complete.text, complete.usage.seconds)
    assert german == create(file=file, language="de", **requested).text
    assert expected != german
    assert f"{expected}\n" == create(file=file, response_format="text", **requested)
    events = list(create(file=file, stream=True, **requested))
    assert expected == "".join(one.delta for one in events[:-1]).strip()
    assert ("transcript.text.done", expected) == (events[-1].type, events[-1].text)
    flac = ("audio.flac", encode_audio(audio, "flac", "flac"))
    assert expected == create(file=flac, **requested).text


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # by OpenAI, for its own model
def test_translations(ears: Ears) -> None:
    audio, create = written(4), ears.openai.audio.translations.create
    requested: dict[str, Any] = {"file": encode_audio(audio), "model": ears.pair.model}
    german, detected = (
        ears.expected(audio, language=language, task="translate")
        for language in ("de", ears.detected(audio))
    )
    assert len({german, detected, ears.expected(audio, language="de")}) == 3
    limit = {"max_tokens": ANSWER}
    assert german == create(**requested, extra_body={**limit, "language": "de"}).text
    assert detected == create(**requested, extra_body=limit).text
    verbose = create(
        **requested, response_format="verbose_json", extra_body={**limit, "language": "de"}
    )
    assert (verbose.language, float(verbose.duration)) == ("en", 0.8)
    assert verbose.model_extra == {"task": "translate", "usage": {"type": "duration", "seconds": 1}}
    with pytest.raises(BadRequestError, match="has no language 'xx'") as refusal:
        create(**requested, extra_body={"language": "xx"})
    assert refusal.value.param == "language"
    subtitles = create(**requested, response_format="srt", extra_body={"language": "de"})
    assert subtitles.startswith("1\n00:00:00,")


def test_its_pod_answers_as_its_checkpoint(ears: Ears) -> None:
    """What the build keeps is what transformers writes down, and the gateway has compared it."""
    kept = Evaluation.from_json((ears.engine.root / EVALUATION_NAME).read_bytes())
    for prompt in kept.prompts:
        assert prompt.audio_hertz is not None
        answer = prompt.steps[-1].candidates[0].text
        assert answer == ears.expected(tone(prompt.audio_hertz), tokens=len(prompt.steps))
    report = report_of(ears.pair.triton)
    assert (report.prompts, report.failed_prompts) == (len(kept.prompts), 0)


def test_languages_are_detected(ears: Ears) -> None:
    create = ears.openai.audio.transcriptions.create
    found = set()
    for seed in range(8):
        audio = written(seed)
        language = ears.detected(audio)
        expected = ears.expected(audio, language=language)
        file = ("audio.wav", encode_audio(audio))
        limit = {"max_tokens": ANSWER}
        reported = create(file=file, model=ears.pair.model, extra_body=limit)
        assert expected == reported.text
        verbose = create(
            file=file, model=ears.pair.model, response_format="verbose_json", extra_body=limit
        )
        assert language == verbose.language
        found.add(language)
    assert found == {"en", "de"}


def test_what_is_refused(ears: Ears) -> None:
    audio = encode_audio(noise(0.5, seed=3))
    create = ears.openai.audio.transcriptions.create
    for changes, words in (
        ({"file": audio[:30]}, "`file`: the recording is damaged or truncated"),
        ({"language": "xx"}, "`language`: the model has no language 'xx'"),
        ({"response_format": "ass"}, "`response_format` is invalid: input should be 'json'"),
        ({"response_format": "srt", "stream": True}, "a stream has text alone"),
        ({"response_format": "vtt", "extra_body": {"stop": "a"}}, "`stop` is not served"),
        ({"prompt": "Ann"}, "`prompt` is invalid: input should be None"),
    ):
        with pytest.raises(BadRequestError, match=words):
            create(**{"file": audio, "model": ears.pair.model, **changes})
    plain = httpx.post(f"{ears.pair.url}/v1/audio/transcriptions", json={}, timeout=60)
    assert (plain.status_code, "must be a form" in plain.text) == (400, True)
    for samples, words in (
        (np.zeros(RATE + 1, np.float32), "1 to 16000 are allowed"),
        (np.full(10, np.nan, np.float32), "holds NaN"),
    ):
        with pytest.raises(Exception, match=words):
            ears.query("ensemble", "text_output", [("WAV", "FP32", samples)])
    with pytest.raises(Exception, match="does not begin with <\\|startoftranscript\\|>"):
        ears.query(
            "whisper_bls",
            "TRANSCRIPTS",
            [("TEXT_PREFIX", "BYTES", b"what"), ("WAV", "FP32", np.zeros(99, np.float32))],
        )
    assert create(file=audio, model=ears.pair.model).text
