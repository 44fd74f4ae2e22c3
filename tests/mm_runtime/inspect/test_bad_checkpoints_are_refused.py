"""Every way in which a checkpoint can be wrong has a reason and a message that says what to do."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_facts import InspectReason
from mm_api.families import FAMILIES
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.cases import cases
from support.hollow_checkpoint import LLAVA_CONFIG, shard, write_checkpoint

Damage = Callable[[Path], object]


def refusal(source: Path, options: InspectOptions | None = None) -> InspectRefusedError:
    with pytest.raises(InspectRefusedError) as caught:
        inspect(source, options or InspectOptions())
    return caught.value


def config_with(**changes: Any) -> Damage:
    return lambda source: (source / "config.json").write_text(
        json.dumps({**LLAVA_CONFIG, **changes})
    )


def text_with(name: str, text: str) -> Damage:
    def write(source: Path) -> None:
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text)

    return write


def cut(name: str, size: int) -> Damage:
    return lambda source: os.truncate(source / name, size)


def only_pickle(source: Path) -> None:
    (source / "model.safetensors").rename(source / "pytorch_model.bin")


def index_names_missing_shard(source: Path) -> None:
    shard(source)
    (source / "model-00002-of-00002.safetensors").unlink()


def index_names_missing_tensor(source: Path) -> None:
    shard(source)
    path = source / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["c"] = index["weight_map"]["a"]
    path.write_text(json.dumps(index))


def index_leaves_the_directory(source: Path) -> None:
    shard(source)
    path = source / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "../../etc/passwd"}}))


def header_with(*, moved: float = 0, twice: bool = False) -> Damage:
    def damage(source: Path) -> None:
        path = source / "model.safetensors"
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        names = [name for name in header if name != "__metadata__"]
        header[names[1]]["data_offsets"][0] += moved
        text = json.dumps(header)
        if twice:
            text = f'{{"{names[0]}": {json.dumps(header[names[0]])}, {text[1:]}'
        path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + content[8 + length :])

    return damage


def huge_header(source: Path) -> None:
    (source / "model.safetensors").write_bytes(b"\xff" * 64)


R = InspectReason
CASES: dict[InspectReason, dict[str, tuple[Damage, str]]] = {
    R.CONFIG_MISSING: {
        "config-missing": (lambda s: (s / "config.json").unlink(), "holds: model.sa"),
        "processor-missing": (
            lambda source: (source / "preprocessor_config.json").unlink(),
            "holds neither preprocessor_config.json nor processor_config.json",
        ),
        "tokenizer-missing": (lambda s: (s / "tokenizer.json").unlink(), "fast tok"),
    },
    R.CONFIG_INVALID: {
        "config-empty": (text_with("config.json", ""), "it is empty"),
        "config-truncated": (cut("config.json", 60), "is not valid JSON"),
        "config-not-json": (text_with("config.json", "hello"), "is not valid JSON"),
        "config-a-list": (text_with("config.json", "[]"), "expected a JSON object"),
        "config-binary": (lambda s: (s / "config.json").write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
        "config-nested-endlessly": (
            text_with("config.json", '{"a":' * 200_000),
            "nested too deeply",
        ),
        "original-llava-layout": (config_with(mm_vision_tower="openai/clip"), "llava-hf"),
        "hidden-size-a-string": (
            config_with(text_config={**LLAVA_CONFIG["text_config"], "hidden_size": "32"}),
            "text_config.hidden_size is '32'",
        ),
        "layers-negative": (
            config_with(vision_config={"num_hidden_layers": -1}),
            "expected a whole number from 1",
        ),
        "heads-do-not-divide": (
            config_with(text_config={**LLAVA_CONFIG["text_config"], "num_attention_heads": 5}),
            "is not a multiple of",
        ),
        "feature-layer-outside": (
            config_with(vision_feature_layer=-9),
            "expected one whole number from -4 to 3",
        ),
        "feature-select-unknown": (
            config_with(vision_feature_select_strategy="all"),
            "expected 'default' or 'full'",
        ),
        "text-model-without-defaults": (
            config_with(text_config={"model_type": "gpt9"}),
            "text_config.hidden_size is missing",
        ),
        "processor-of-another-family": (
            text_with(
                "preprocessor_config.json", '{"image_processor_type": "Qwen2VLImageProcessor"}'
            ),
            "images of family llava are cut by",
        ),
        "processors-that-differ": (
            text_with("processor_config.json", '{"image_processor": {"do_resize": false}}'),
            "differ in do_resize: do_resize is True in the first and False in the second",
        ),
        "tokenizer-config-truncated": (
            text_with("tokenizer_config.json", '{"a": '),
            "tokenizer_config.json is not valid JSON",
        ),
    },
    R.UNKNOWN_FAMILY: {"family-unknown": (config_with(model_type="gpt9"), "'gpt9'")},
    R.CUSTOM_CODE_REFUSED: {
        "custom-code": (config_with(auto_map={"AutoModel": "x.Y"}), "trustRem"),
        "custom-code-in-processor": (
            text_with("preprocessor_config.json", '{"auto_map": {"AutoProcessor": "x.Y"}}'),
            "preprocessor_config.json requires running Python",
        ),
        **{
            f"custom-code-in-{name}": (
                text_with(name, '{"auto_map": {"AutoModel": "x.Y"}}'),
                f"{name} requires running Python",
            )
            for name in (
                "video_preprocessor_config.json",
                "llm/config.json",
                "llm/tokenizer_config.json",
                "vision_tower/config.json",
                "vision_tower/preprocessor_config.json",
                "mm_projector/config.json",
            )
        },
    },
    R.WEIGHTS_MISSING: {
        "weights-missing": (
            lambda s: (s / "model.safetensors").unlink(),
            "neither model.safetensors nor",
        ),
        "shard-missing": (index_names_missing_shard, "-00002-of-00002.safetensors"),
    },
    R.PICKLE_REFUSED: {"weights-pickled": (only_pickle, "spec.model.allowPickle")},
    R.WEIGHTS_INVALID: {
        "tensor-missing": (index_names_missing_tensor, "says that c is in"),
        "index-leaves-directory": (index_leaves_the_directory, "not a file beside"),
        "weights-cut-in-data": (cut("model.safetensors", 300), "truncated"),
        "weights-cut-in-header": (cut("model.safetensors", 40), "truncated"),
        "weights-cut-at-once": (cut("model.safetensors", 3), "has 3 bytes"),
        "weights-overlap": (header_with(moved=-2), "its tensors overlap"),
        "weights-with-a-hole": (header_with(moved=2), "leave bytes between"),
        "weights-at-half-a-byte": (header_with(moved=0.5), "its tensors overlap"),
        "weights-twice": (header_with(twice=True), "its header cannot be read"),
        "weights-no-safetensors": (huge_header, "is not a safetensors file"),
    },
}


@pytest.mark.parametrize(
    ("reason", "damage", "words"),
    [
        pytest.param(reason, *row, id=name)
        for reason, rows in CASES.items()
        for name, row in rows.items()
    ],
)
def test_damage_has_a_reason(
    tmp_path: Path, reason: InspectReason, damage: Damage, words: str
) -> None:
    source = write_checkpoint(tmp_path / "checkpoint")
    damage(source)
    found = refusal(source)
    assert reason == found.reason
    assert words in found.message


def test_unknown_family_lists_known_ones(tmp_path: Path) -> None:
    message = refusal(write_checkpoint(tmp_path, {"model_type": "gpt9"})).message
    assert all(family in message for family in FAMILIES)


@cases(
    "requested reason",
    {"another-family": ("vila", R.FAMILY_MISMATCH), "no-family": ("gpt9", R.UNKNOWN_FAMILY)},
)
def test_requested_family_must_agree(tmp_path: Path, requested: str, reason: InspectReason) -> None:
    found = refusal(write_checkpoint(tmp_path), InspectOptions(family=requested))
    assert reason == found.reason


@cases(
    "path words",
    {
        "missing": ("checkpoint/nowhere/deeper", "holds: config.json"),
        "a-file": ("checkpoint/config.json", "is a file"),
    },
)
def test_wrong_path_shows_what_is_there(tmp_path: Path, path: str, words: str) -> None:
    write_checkpoint(tmp_path / "checkpoint")
    found = refusal(tmp_path / path)
    assert found.reason is R.SOURCE_NOT_FOUND
    assert words in found.message
