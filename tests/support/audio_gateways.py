"""A gateway for tests that transcribes audio: a toy Whisper's files and documents, no weights."""

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.model_facts import EncoderFacts
from mm_runtime.gateway.backends.engine import Engine
from mm_runtime.gateway.wiring import Gateway
from support.gateways import toy_gateway, toy_manifest

MEL_BINS, POSITIONS = 8, 50
"""Of its encoder, whose window is one second: two frames a position, 100 a second."""

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_RECEIVED = (
    *("<|startoftranscript|>", "<|en|>", "<|de|>"),
    *("<|transcribe|>", "<|translate|>", "<|startofprev|>", "<|nospeech|>"),
)
WORDS = ("what", "is", "it", "?", "a", "red", "square", "rain")
_TIMES = ("<|notimestamps|>", *(f"<|{at * 0.02:.2f}|>" for at in range(POSITIONS + 1)))
VOCABULARY = (*_SPECIAL, *_RECEIVED, *WORDS, *_TIMES)
FIRST_TIME = VOCABULARY.index("<|0.00|>")
LANGUAGES = {"en": VOCABULARY.index("<|en|>"), "de": VOCABULARY.index("<|de|>")}


def audio_gateway(directory: Path, engine: Engine, *, max_queue_size: int = 1) -> Gateway:
    start = VOCABULARY.index("<|startoftranscript|>")
    generation = {
        "decoder_start_token_id": start,
        "is_multilingual": True,
        "lang_to_id": {f"<|{code}|>": at for code, at in LANGUAGES.items()},
        "no_timestamps_token_id": FIRST_TIME - 1,
    }
    folder = directory / "llm"
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", {"decoder_start_token_id": start})
    _write_json(folder / "generation_config.json", generation)
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(VOCABULARY)}, "<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([*_SPECIAL, *_RECEIVED, *_TIMES])
    files = {
        "tokenizer.json": json.loads(tokenizer.to_str()),
        "preprocessor_config.json": {"feature_size": MEL_BINS, "chunk_length": 1},
    }
    return toy_gateway(
        directory, engine, files=files, manifest=_manifest(), max_queue_size=max_queue_size
    )


def _manifest() -> EngineManifest:
    manifest = toy_manifest()
    plan = manifest.plan
    size = {"hidden_size": 8, "intermediate_size": 8, "layers": 1, "attention_heads": 1}
    text = plan.facts.text.model_copy(update={"vocabulary_size": len(VOCABULARY)})
    facts = plan.facts.model_copy(
        update={
            "family": "whisper",
            "architecture": "WhisperForConditionalGeneration",
            "image_token_id": None,
            "text": text,
            "vision": None,
            "encoder": EncoderFacts(
                **size, head_size=8, max_positions=POSITIONS, mel_bins=MEL_BINS
            ),
        }
    )
    limits = plan.engine.limits.model_copy(
        update={
            "max_input_len": 64,
            "max_seq_len": 64,
            "max_images_per_request": 0,
            "max_multimodal_len": 0,
            "max_encoder_input_len": 2 * POSITIONS,
        }
    )
    engine = plan.engine.model_copy(update={"family": "whisper", "limits": limits, "vision": None})
    plan = plan.model_copy(update={"facts": facts, "engine": engine})
    return manifest.model_copy(update={"plan": plan})


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content))
