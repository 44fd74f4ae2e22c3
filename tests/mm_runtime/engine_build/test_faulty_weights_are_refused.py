"""A checkpoint with one weight removed, renamed, cut or not finite is never loaded."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason
from mm_api.documents.model_facts import InspectReason
from mm_api.families import FAMILIES
from mm_runtime.backends import steps
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.commands import verify_weights
from mm_runtime.engine_build.commands.towers import WITH_TOWERS, load_tower
from mm_runtime.engine_build.commands.verify_weights import refuse_other_class
from mm_runtime.engine_build.run import BuildOptions, build
from mm_runtime.errors import InspectRefusedError, PermanentError, WeightsUnusableError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.inspect.finite import refuse_not_finite
from mm_runtime.inspect.source import inspect_source
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.origin import opened
from support.broken_checkpoints import SINGLE, copied, edit_json
from support.build_sites import Site
from support.cases import cases
from support.families import images, texts
from support.families.pipeline import plan_of
from support.made_once import made_once
from support.model_configs import reference_plan
from support.representatives import others_are_slow

Weights = dict[str, torch.Tensor]
STEP_SECONDS = 240.0

FAMILY_NAMES = [*images.CASES, *texts.WRITERS]
SEED, SAMPLED = 41, 3
"""Weights of a family for each fault; `slow` takes all of them."""


def removed(weights: Weights, name: str) -> Weights:
    return {one: tensor for one, tensor in weights.items() if one != name}


def renamed(weights: Weights, name: str) -> Weights:
    return removed(weights, name) | {f"{name}_old": weights[name]}


def left_over(weights: Weights, name: str) -> Weights:
    return weights | {f"{name}_old": weights[name].clone()}


def halved(weights: Weights, name: str) -> Weights:
    tensor = weights[name]
    rows = tensor.shape[0] // 2 if tensor.ndim and tensor.shape[0] > 1 else 0
    return weights | {name: tensor[:rows].clone() if rows else torch.zeros(2)}


def reshaped(weights: Weights, name: str) -> Weights:
    tensor = weights[name]
    return weights | {name: tensor.reshape(-1) if tensor.ndim > 1 else tensor.reshape(1, -1)}


def holding(number: float, weights: Weights, name: str) -> Weights:
    tensor = weights[name].clone()
    if tensor.is_floating_point():
        tensor.view(-1)[tensor.numel() // 2] = number
    return weights | {name: tensor}


FAULTS: dict[str, Callable[[Weights, str], Weights]] = {
    "removed": removed,
    "renamed": renamed,
    "left-over": left_over,
    "halved": halved,
    "reshaped": reshaped,
    "nan": partial(holding, float("nan")),
    "infinite": partial(holding, float("-inf")),
}


def read(checkpoint: Path) -> None:
    plan = plan_of(inspect_source(str(checkpoint), InspectOptions(), compare=refuse_other_class))
    refuse_not_finite(checkpoint.rglob("*.safetensors"))
    # Of a family whose class has no tower, loading that looks at the same weights once more.
    if (
        FAMILIES[plan.facts.family].checkpoint.decoder == "Complete"
        and plan.facts.family in WITH_TOWERS
    ):
        load_tower(checkpoint, plan.facts, trust_remote_code=False)


def write(family: str, folder: Path) -> None:
    (images.write if family in images.CASES else texts.write)(family, folder)


@pytest.fixture(
    params=others_are_slow(FAMILY_NAMES, "llava", "mllama", "qwen2-vl", "t5", "whisper")
)
def of_family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Path:
    made = made_once(tmp_path_factory, f"weights-{request.param}", partial(write, request.param))
    return Path(shutil.copytree(made, tmp_path / "checkpoint"))


def refusals(checkpoint: Path, fault: str, sampled: int | None) -> tuple[list[str], list[str]]:
    """Return the weights given a fault, and those that refusals name; files stay as they were."""
    stored = {path: load_file(path) for path in sorted(checkpoint.rglob("*.safetensors"))}
    places = [(path, name) for path, weights in stored.items() for name in weights]
    if sampled is not None:
        chosen = np.random.default_rng([SEED, *fault.encode()])
        places = [places[at] for at in chosen.choice(len(places), sampled, replace=False)]
    named = []
    for path, name in places:
        _save(FAULTS[fault](stored[path], name), path)
        try:
            read(checkpoint)
        except (InspectRefusedError, WeightsUnusableError) as refusal:
            if name.split(".")[-1] in str(refusal):
                named.append(name)
        _save(stored[path], path)
    return [name for _, name in places], named


def _save(weights: Weights, path: Path) -> None:
    path.unlink()  # a file that is mapped into memory keeps its bytes
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sample_of_the_weights(of_family: Path, fault: str) -> None:
    expected, named = refusals(of_family, fault, SAMPLED)
    assert expected == named


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_weight(of_family: Path, fault: str) -> None:
    expected, named = refusals(of_family, fault, None)
    assert expected == named


def test_complete_checkpoints_are_read(of_family: Path) -> None:
    read(of_family)


@cases(
    "at fault name",
    {
        "no-head": (("Reference", "export-vision"), "removed", "language_model.lm_head.weight"),
        "nan": (("Reference", "fetch"), "nan", "language_model.lm_head.weight"),
        "vllm": (("VLLM", "verify-weights"), "removed", "language_model.model.norm.weight"),
        "pytorch": (("PyTorch", "verify-weights"), "reshaped", "language_model.model.norm.weight"),
    },
)
def test_the_status_has_reason_and_name(
    vision_site: Site, tmp_path: Path, at: tuple[str, str], fault: str, name: str
) -> None:
    backend, step = at
    source = Path(shutil.copytree(vision_site.source, tmp_path / "source"))
    path = source / "model.safetensors"
    _save(FAULTS[fault](load_file(path), name), path)
    plan = vision_site.plan
    with opened(parse_address(str(source))) as origin:  # inspection would refuse some of them
        digest = origin.digest()
    changes = {"source_digest": digest, "backend": backend, "evaluation": "Off"}
    plan = plan.model_copy(update={"engine": plan.engine.model_copy(update=changes)})
    options = BuildOptions(plan, str(source), vision_site.store, STEP_SECONDS, steps=steps)
    result, code = build(options, StopSignal())
    assert result.failure is not None
    found = (code, result.failure.reason, result.failure.step, result.failure.retryable)
    assert found == (ExitCode.PERMANENT, BuildReason.WEIGHTS_INVALID, step, False)
    assert name.removeprefix("language_model.").removeprefix("model.") in result.failure.message
    assert "build again" not in result.failure.message


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
