"""What an engine's inputs need is there for requests without images, and of the right length."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.native_outputs import Completion, completion_of
from mm_runtime.serving.geometry.rotation import Rotation
from support.documents import manifest
from support.model_configs import folder_of
from support.native.backend.checks import RefusedError, RequestChecks
from support.native_engines import native_engine

NAMES = {
    "ENCODER_INPUT_FEATURES": "encoder_input_features",
    "ENCODER_OUTPUT_LENGTHS": "encoder_output_lengths",
    "CROSS_ATTENTION_MASK": "cross_attention_mask",
    "SKIP_CROSS_ATTN_BLOCKS": "skip_cross_attn_blocks",
    "MROPE_ROTARY_COS_SIN": "mrope_rotary_cos_sin",
    "MROPE_POSITION_DELTAS": "mrope_position_deltas",
}
ARCHITECTURES = {"mllama": "MLLaMAForCausalLM", "qwen2-vl": "Qwen2VLForConditionalGeneration"}
TEXT = {
    "input_ids": np.array([[1, 2, 3]], dtype=np.int32),
    "request_output_len": np.array([[8]], dtype=np.int32),
}


def opened(folder: Path, family: str) -> EngineDirectory:
    """Return an engine's directory with the checkpoint's configuration."""
    made, _ = native_engine(family)
    (folder / "processor").mkdir()
    config = json.loads((folder_of(family) / "config.json").read_text())
    (folder / "processor" / "config.json").write_text(json.dumps(config))
    return EngineDirectory(folder, made)


def checks(engine: EngineDirectory) -> RequestChecks:
    limits, text = engine.limits, engine.facts.text
    pretrained: dict[str, Any] = {
        "architecture": ARCHITECTURES[engine.facts.family],
        "vocab_size": text.vocabulary_size,
        "hidden_size": text.hidden_size,
    }
    rotated = engine.facts.family == "qwen2-vl"
    rotations = text.max_position_embeddings * text.head_size if rotated else 0
    return RequestChecks(
        {"pretrained_config": pretrained, "build_config": limits.model_dump()}, rotations
    )


def sent(completion: Completion) -> dict[str, Any]:
    found = completion.without(8)
    return {**TEXT, **{NAMES[name]: value for name, value in found.items()}}


@pytest.mark.parametrize("family", ["mllama", "qwen2-vl"])
def test_questions_without_images(tmp_path: Path, family: str) -> None:
    """The backend takes them; without what is added it would fail the step."""
    engine = opened(tmp_path, family)
    demanded = checks(engine)
    demanded.check(sent(completion_of(engine)))
    with pytest.raises(RefusedError, match=r"encoder_input_features|mrope_rotary_cos_sin"):
        demanded.check(TEXT)


def test_cross_attention_is_skipped(tmp_path: Path) -> None:
    """Zeros that no layer reads, with a row of the mask for each token of the answer."""
    found = completion_of(opened(tmp_path, "mllama")).without(8)
    assert found["SKIP_CROSS_ATTN_BLOCKS"].tolist() == [[True]]
    assert found["CROSS_ATTENTION_MASK"].shape == (1, 8, 4)
    assert not found["ENCODER_INPUT_FEATURES"].any()


def test_rotations_of_text_count_on(tmp_path: Path) -> None:
    """Position n is rotated as the checkpoint's own positions are, up to the last one."""
    engine = opened(tmp_path, "qwen2-vl")
    config = json.loads((engine.configs / "config.json").read_text())
    rotation, positions = Rotation.of(config, engine.facts.text.head_size), [0, 1, 1000]
    found = completion_of(engine).without(8)["MROPE_ROTARY_COS_SIN"].reshape(-1, 64, 2)
    expected = rotation.values(np.array([positions] * 3))
    assert np.array_equal(expected, found[positions])


def test_rotations_of_images_are_padded(tmp_path: Path) -> None:
    """Those of the prompt stay; the rest is rotated by nothing."""
    engine = opened(tmp_path, "qwen2-vl")
    prompt = np.arange(2 * 64 * 2, dtype=np.float32)[None]
    given = {
        "MROPE_ROTARY_COS_SIN": prompt,
        "MROPE_POSITION_DELTAS": np.array([[-3]], dtype=np.int64),
    }
    made = completion_of(engine).complete(given)
    values = made["MROPE_ROTARY_COS_SIN"].reshape(-1, 2)
    assert np.array_equal(prompt.reshape(-1, 2), values[: 2 * 64])
    assert (values[2 * 64 :] == [1, 0]).all()
    assert made["MROPE_POSITION_DELTAS"].tolist() == [[-3]]


def test_the_reference_engine_needs_nothing() -> None:
    engine = EngineDirectory(Path("/nowhere"), manifest())
    assert completion_of(engine).without(8) == {}
