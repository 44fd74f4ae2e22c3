"""Whisper checkpoints of English alone begin with neither language nor task, as OpenAI's do."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.documents.vllm_serve import VllmServe
from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.vllm.client import open_vllm
from mm_runtime.gateway.media.audio_reader import AudioReader
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.audio.prefixes import ENGLISH_VOCABULARY, Prefixes
from mm_runtime.serving.preprocess.audio.spectrogram import LogMel
from mm_runtime.serving.prompts.tokens import TextCodec
from support.build_plans import serving_plan
from support.cases import cases
from support.families import texts
from support.families.pipeline import build

ENGLISH = "<|startoftranscript|><|notimestamps|>"
MULTILINGUAL = "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"


def engine_of(tmp_path: Path, *, said: bool | None, vocabulary: int | None) -> EngineDirectory:
    """`said`: `is_multilingual` of generation_config.json; None: the file is absent."""
    checkpoint = texts.write("whisper", tmp_path / "checkpoint")
    path = checkpoint / "generation_config.json"
    chosen = json.loads(path.read_text())
    if said is None:
        path.unlink()
    else:
        path.write_text(json.dumps(chosen | {"is_multilingual": said}))
    engine = build(checkpoint, tmp_path / "store")
    if vocabulary:
        text = engine.facts.text.model_copy(update={"vocabulary_size": vocabulary})
        facts = engine.facts.model_copy(update={"text": text})
        plan = engine.manifest.plan.model_copy(update={"facts": facts})
        engine = replace(engine, manifest=engine.manifest.model_copy(update={"plan": plan}))
    return engine


def prefixes_of(tmp_path: Path, *, said: bool | None, vocabulary: int | None) -> Prefixes:
    engine = engine_of(tmp_path, said=said, vocabulary=vocabulary)
    return Prefixes.load(engine, TextCodec(engine.tokenizer))


@cases(
    "said vocabulary expected",
    {
        "multilingual": (True, None, MULTILINGUAL),
        "english": (False, None, ENGLISH),
        "english-by-its-vocabulary": (None, ENGLISH_VOCABULARY, ENGLISH),
        "multilingual-by-its-vocabulary": (None, 51_865, MULTILINGUAL),
    },
)
def test_prefix(
    tmp_path: Path, expected: str, *, said: bool | None, vocabulary: int | None
) -> None:
    """The vocabulary of English checkpoints has the tokens of languages, too."""
    prefixes = prefixes_of(tmp_path, said=said, vocabulary=vocabulary)

    assert prefixes.write(None) == prefixes.write("en") == expected
    assert len(prefixes.ids("")) == expected.count("<|")


@cases("language task", {"language": ("de", "transcribe"), "task": ("en", "translate")})
def test_other_requests_are_refused(tmp_path: Path, language: str, task: str) -> None:
    with pytest.raises(RequestError, match="English alone"):
        prefixes_of(tmp_path, said=False, vocabulary=None).write(language, task)


@pytest.mark.parametrize("said", [True, False], ids=["multilingual", "english"])
def test_translations_need_a_multilingual_checkpoint(tmp_path: Path, *, said: bool) -> None:
    prefixes = prefixes_of(tmp_path, said=said, vocabulary=None)
    with closing(Decoders(1, DecoderLimits(memory_bytes=1 << 30, wall_seconds=60))) as decoders:
        reader = AudioReader(
            prefixes,
            LogMel(bins=8, frames=100),
            decoders,
            may_detect=True,
            may_time=True,
            is_cut_there=False,
        )
        assert reader.prefix("en")[0] == (MULTILINGUAL if said else ENGLISH)
        if said:
            translated = MULTILINGUAL.replace("transcribe", "translate")
            assert reader.prefix("en", "translate") == (translated, 4)
            return
        with pytest.raises(InvalidRequestError, match="POST /v1/audio/transcriptions") as refusal:
            reader.prefix("en", "translate")
    assert refusal.value.code == "unsupported_endpoint"


async def test_vllm_is_given_checkpoints_that_begin_as_it_does(tmp_path: Path) -> None:
    """With its prefix those of English alone end at the first token; nothing of it can be sent."""
    serve = VllmServe(version="0.32.0", port=8000, argv=["vllm", "serve"])
    plan = serving_plan("0" * 64, backend="VLLM", vllm_serve=serve)
    engine = engine_of(tmp_path / "multilingual", said=True, vocabulary=None)
    await open_vllm(engine, plan, "").close()
    engine = engine_of(tmp_path / "english", said=False, vocabulary=None)
    with pytest.raises(ValueError, match="was trained to begin with") as refusal:
        open_vllm(engine, plan, "")
    assert MULTILINGUAL in str(refusal.value)
    assert str(refusal.value).count(ENGLISH) == 1
