"""Whatever a checkpoint holds, inspect answers with facts or a refusal, never with a traceback."""

import json
import struct
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.hollow_checkpoint import LLAVA_CONFIG, write_checkpoint

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS = sorted({*LLAVA_CONFIG, "dtype", "torch_dtype", "auto_map", "mm_vision_tower"})
TEXT_KEYS = sorted({*LLAVA_CONFIG["text_config"], "head_dim"})
VISION_KEYS = sorted(LLAVA_CONFIG["vision_config"])

FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def answer(directory: Path) -> object:
    try:
        return inspect(directory, InspectOptions(allow_pickle=True, trust_remote_code=True))
    except InspectRefusedError as refused:
        return refused


@FUZZ
@given(
    top=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3),
    text=st.dictionaries(st.sampled_from(TEXT_KEYS), JSON, max_size=3),
    vision=st.dictionaries(st.sampled_from(VISION_KEYS), JSON, max_size=3),
)
def test_any_values_in_the_config(
    tmp_path: Path, top: dict[str, Any], text: dict[str, Any], vision: dict[str, Any]
) -> None:
    config = {
        **LLAVA_CONFIG,
        "text_config": {**LLAVA_CONFIG["text_config"], **text},
        "vision_config": {**LLAVA_CONFIG["vision_config"], **vision},
        **top,
    }
    directory = write_checkpoint(tmp_path, config)
    assert isinstance(answer(directory), ModelFacts | InspectRefusedError)


@FUZZ
@given(content=st.binary(max_size=200))
def test_any_bytes_as_config(tmp_path: Path, content: bytes) -> None:
    directory = write_checkpoint(tmp_path)
    (directory / "config.json").write_bytes(content)
    assert isinstance(answer(directory), InspectRefusedError)


@FUZZ
@given(header=JSON, data=st.binary(max_size=16))
def test_any_header_of_weights(tmp_path: Path, header: object, data: bytes) -> None:
    directory = write_checkpoint(tmp_path)
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    assert isinstance(answer(directory), InspectRefusedError)


@FUZZ
@given(
    entry=st.fixed_dictionaries(
        {"dtype": JSON | st.just("F16"), "shape": JSON, "data_offsets": st.just([0, 8])}
    )
)
def test_any_tensor_in_a_header(tmp_path: Path, entry: dict[str, Any]) -> None:
    directory = write_checkpoint(tmp_path)
    text = json.dumps({"a": entry}).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert isinstance(answer(directory), ModelFacts | InspectRefusedError)


@FUZZ
@given(index=JSON | st.fixed_dictionaries({"weight_map": JSON}))
def test_any_index(tmp_path: Path, index: object) -> None:
    directory = write_checkpoint(tmp_path)
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert isinstance(answer(directory), InspectRefusedError)
