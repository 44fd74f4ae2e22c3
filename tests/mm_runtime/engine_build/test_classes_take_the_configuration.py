"""A value of config.json that the checkpoint's class does not take is refused before a build."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mm_api.documents.model_facts import InspectReason
from mm_runtime.engine_build.commands import verify_weights
from mm_runtime.engine_build.commands.verify_weights import refuse_other_class
from mm_runtime.errors import InspectRefusedError, PermanentError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.inspect.source import inspect_source
from support.broken_checkpoints import SINGLE, copied, edit_json
from support.cases import cases
from support.model_configs import reference_plan

Spoil = Callable[[pytest.MonkeyPatch, Path], None]

SCALING = {"factor": 2.0}
LAYERS = "language_model.model.layers"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rope-type": (
        {"text_config": {"rope_scaling": {"rope_type": "su", **SCALING}}},
        "text_config.rope_scaling.rope_type is 'su'",
    ),
    "rope-type-under-its-older-name": (
        {"text_config": {"rope_scaling": {"type": "spiral", **SCALING}}},
        "text_config.rope_scaling.type is 'spiral'",
    ),
    "rope-without-its-factor": (
        {"text_config": {"rope_scaling": {"rope_type": "yarn"}}},
        "text_config.rope_scaling.rope_type is 'yarn'",
    ),
    "rope-factor-is-a-text": (
        {"text_config": {"rope_scaling": {"rope_type": "linear", "factor": "2"}}},
        "TypeError",
    ),
    "activation": ({"text_config": {"hidden_act": "swoosh"}}, "text_config.hidden_act is 'swoosh'"),
    "activation-of-the-tower": (
        {"vision_config": {"hidden_act": "swoosh"}},
        "vision_config.hidden_act is 'swoosh'",
    ),
    "activation-of-the-projector": (
        {"projector_hidden_act": "swoosh"},
        "projector_hidden_act is 'swoosh'",
    ),
    "attention": ({"attn_implementation": "quick"}, "attn_implementation is 'quick'"),
    "attention-of-a-package": ({"attn_implementation": "flash_attention_2"}, "FlashAttention2"),
    "model-type-of-a-part": (
        {"vision_config": {"model_type": "eye"}},
        "vision_config.model_type is 'eye'",
    ),
    "dtype": ({"dtype": "float17"}, "dtype is 'float17'"),
    "types-of-layers": ({"text_config": {"layer_types": ["some"] * 4}}, "layer_types"),
    "padding-without-a-row": ({"text_config": {"pad_token_id": 10**6}}, "Padding_idx"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_unknown_value_is_refused(tmp_path: Path, case: str) -> None:
    """With its key where the class quotes it, what transformers says and what to do."""
    changes, words = REFUSED[case]
    source = copied("tiny-llava", tmp_path / "source")
    edit_json(source / "config.json", **changes)

    with pytest.raises(InspectRefusedError) as refused:
        refuse_other_class(inspect(source, InspectOptions()), source)

    assert refused.value.reason is InspectReason.CONFIG_INVALID
    assert words in refused.value.message
    assert "Correct the value" in refused.value.message


RESHAPED = {
    "layer-of-the-projector": {"multimodal_projector_bias": False},
    "biases": {"text_config": {"attention_bias": True}},
    "colours": {"vision_config": {"num_channels": 1}},
    "width-of-the-tower": {"vision_config": {"intermediate_size": 100}},
}


@pytest.mark.parametrize("case", RESHAPED)
def test_weights_of_another_configuration_are_refused(tmp_path: Path, case: str) -> None:
    """Outside of what headers alone show."""
    source = copied("tiny-llava", tmp_path / "source")
    edit_json(source / "config.json", **RESHAPED[case])

    with pytest.raises(InspectRefusedError, match="are not those of Llava") as refused:
        refuse_other_class(inspect(source, InspectOptions()), source)

    assert refused.value.reason is InspectReason.WEIGHTS_INVALID


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose matrices Model-Optimizer has packed into FP8, with a scale beside each."""
    source = copied("tiny-llava", tmp_path_factory.mktemp("quantized") / "source")
    weights = load_file(source / SINGLE)
    for name in [one for one in weights if one.startswith(LAYERS) and weights[one].ndim == 2]:
        weights[name] = weights[name].to(torch.float8_e4m3fn)
        for scale in ("weight_scale", "input_scale"):
            weights[name.removesuffix("weight") + scale] = torch.ones(())
    save_file(weights, source / SINGLE, metadata={"format": "pt"})
    settings = {"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]}
    (source / "hf_quant_config.json").write_text(json.dumps({"quantization": settings}))
    return source


def test_quantized_weights_are_those_of_the_class(quantized: Path) -> None:
    """Scales have no module; matrices that several numbers of a row share a byte of have one."""
    facts = inspect(quantized, InspectOptions())
    assert facts.quantization is not None
    refuse_other_class(facts, quantized)


@pytest.mark.parametrize(
    "name", ["language_model.model.norm.weight", "multi_modal_projector.linear_1.weight"]
)
def test_quantized_weights_that_are_missing_are_refused(
    quantized: Path, tmp_path: Path, name: str
) -> None:
    source = Path(shutil.copytree(quantized, tmp_path / "source"))
    weights = load_file(source / SINGLE)
    (source / SINGLE).unlink()
    weights.pop(name)
    save_file(weights, source / SINGLE, metadata={"format": "pt"})

    with pytest.raises(InspectRefusedError, match=f"1 missing.*{name.split('.', 1)[1]}"):
        refuse_other_class(inspect(source, InspectOptions()), source)


def without_torch(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr("importlib.util.find_spec", lambda _: None)


def older_transformers(patch: pytest.MonkeyPatch, source: Path) -> None:
    patch.setattr("importlib.metadata.version", lambda _: "4.53.0")
    edit_json(source / "config.json", text_config={"hidden_act": "swoosh"})


def pickled(_: pytest.MonkeyPatch, source: Path) -> None:
    torch.save(load_file(source / SINGLE), source / "pytorch_model.bin")
    (source / SINGLE).unlink()


@cases(
    "spoil words",
    {
        "no-torch": (without_torch, "no torch or no transformers; the build compares them"),
        "older": (
            older_transformers,
            r"4\.53\.0 of the image cannot make it \(.*swoosh",
        ),
        "pickles": (pickled, "the build compares them where it makes safetensors"),
    },
)
def test_what_is_not_compared_is_said_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Spoil, words: str
) -> None:
    """The facts have the reason, and the plan's warnings are in the status."""
    source = copied("tiny-llava", tmp_path / "source")
    spoil(monkeypatch, source)

    options = InspectOptions(allow_pickle=True)
    facts = inspect_source(str(source), options, compare=refuse_other_class)
    changes = {"model": {"allowPickle": True}}
    warned = [one.message for one in reference_plan(facts, changes).warnings]

    assert any(re.search(words, message) for message in warned)


def test_a_build_without_torch_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_weights, "memory_limit", lambda: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(PermanentError, match=r"no torch or no transformers.*spec\.build\.image"):
        verify_weights.verify_weights(None)  # type: ignore[arg-type]


def test_too_little_memory_to_look_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build with weights that nothing has compared does not continue."""
    monkeypatch.setattr(verify_weights, "memory_limit", lambda: 256 << 20)
    with pytest.raises(PermanentError, match=r"limits.memory lets the build have 256 MiB.*512 MiB"):
        verify_weights.verify_weights(None)  # type: ignore[arg-type]
