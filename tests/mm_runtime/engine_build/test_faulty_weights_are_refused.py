"""A checkpoint with one weight removed, renamed, cut or not finite is never loaded."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason
from mm_api.families import FAMILIES
from mm_runtime.backends import steps
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.commands.towers import WITH_TOWERS, load_tower
from mm_runtime.engine_build.commands.verify_weights import refuse_other_class
from mm_runtime.engine_build.run import BuildOptions, build
from mm_runtime.errors import InspectRefusedError, WeightsUnusableError
from mm_runtime.inspect.checkpoint import InspectOptions
from mm_runtime.inspect.finite import refuse_not_finite
from mm_runtime.inspect.source import inspect_source
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.origin import opened
from support.build_sites import Site
from support.cases import cases
from support.families import images, texts
from support.families.pipeline import plan_of
from support.made_once import made_once
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
    """Return weights of which one has a first dimension of half the size, or of two numbers."""
    tensor = weights[name]
    rows = tensor.shape[0] // 2 if tensor.ndim and tensor.shape[0] > 1 else 0
    return weights | {name: tensor[:rows].clone() if rows else torch.zeros(2)}


def reshaped(weights: Weights, name: str) -> Weights:
    """Return weights of which one has its numbers in one row, or a row in a matrix."""
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
    """Do what a build does with a checkpoint before anything is made of it."""
    plan = plan_of(inspect_source(str(checkpoint), InspectOptions(), compare=refuse_other_class))
    refuse_not_finite(checkpoint.rglob("*.safetensors"))
    # Of a family whose class has no tower, loading that looks at the same weights once more.
    if (
        FAMILIES[plan.facts.family].checkpoint.decoder == "Complete"
        and plan.facts.family in WITH_TOWERS
    ):
        load_tower(checkpoint, plan.facts, trust_remote_code=False)


def write(family: str, folder: Path) -> None:
    """Write a small checkpoint of a family; transformers stores tied weights once."""
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
    """Return the weights that were given a fault, and those of them whose refusal names them.

    Args:
        checkpoint: its files are as they were afterwards.
        fault: of `FAULTS`.
        sampled: weights that are chosen; None: all.
    """
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
    """What is read before an engine is made refuses it, and names the weight."""
    expected, named = refusals(of_family, fault, SAMPLED)
    assert expected == named


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_weight(of_family: Path, fault: str) -> None:
    expected, named = refusals(of_family, fault, None)
    assert expected == named


def test_complete_checkpoints_are_read(of_family: Path) -> None:
    """The same looks take each family's checkpoint as it is."""
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
    """The build ends for good with a reason of its own, and with the name of the weight."""
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
