"""What runs in NVIDIA's images imports only what upstream's list and our Dockerfile put there."""

import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from mm_runtime.backends import steps
from mm_runtime.engine_build.runner import FETCHES
from mm_runtime.repository.layout import SHIPPED
from support.import_closure import packages_of
from support.model_configs import MODELS, planned, planned_on_pytorch
from support.needs import ROOT, modules
from support.twin import ADDED, OF_THE_IMAGE, normalised, pinned, versions

IN_TRITON = [
    ROOT / "runtime" / "mm_runtime" / "repository" / "models" / f"{name}.py"
    for name in (*SHIPPED, "llm_api", "llm_api_served")
    if name != "tensorrt_llm"  # the Reference engine's; TensorRT-LLM brings its own
]
SUPERVISOR = ROOT / "requirements" / "trtllm-supervisor.txt"


_distributions = cache(metadata.packages_distributions)


@cache
def steps_of_builds() -> list[Path]:
    plans = [planned(family) for family in MODELS]
    plans.append(planned_on_pytorch("qwen2-vl"))
    found = [step for plan in plans if plan.build_plan for step in steps(plan.build_plan)]
    names = {step.module for step in found if step.name not in FETCHES and step.module}
    return [path for name in sorted(names) for path in modules()[name]]


def lacking(
    roots: Iterable[Path], held: set[str], guarded: Iterable[Path] = ()
) -> dict[str, list[str]]:
    """Return package -> our files that load it, of those that an environment does not hold."""
    distributions = _distributions()
    return {
        package: files
        for package, files in packages_of(*roots, guarded=guarded).items()
        if package not in sys.stdlib_module_names
        and package not in OF_THE_IMAGE
        and held.isdisjoint(map(normalised, (*distributions.get(package, ()), package)))
    }


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize("part", ["models-inside-triton", "steps-of-builds"])
def test_engine_interpreter_holds_what_is_imported(version: str, part: str) -> None:
    lists = pinned(ROOT / "tools" / "twins" / f"{version}.txt"), pinned(ADDED)
    roots = IN_TRITON if part == "models-inside-triton" else steps_of_builds()

    assert lacking(roots, {name for one in lists for name in one}) == {}


def test_supervisor_holds_what_is_imported() -> None:
    commands = ("cli", "engine_build.commands.fetch", "engine_build.commands.fetch_adapters")
    roots = [path for name in commands for path in modules()[f"mm_runtime.{name}"]]

    # The first is guarded by a look for torch, the second runs in the image's interpreter.
    elsewhere = ("engine_build.commands.verify_weights", "comparison.compare")
    guarded = [path for name in elsewhere for path in modules()[f"mm_runtime.{name}"]]

    assert lacking(roots, set(pinned(SUPERVISOR)), guarded) == {}


def test_a_package_that_is_lacking_is_named(tmp_path: Path) -> None:
    """The check names a package, and ignores what types alone import."""
    file = tmp_path / "model.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport numpy, onnxruntime.capi\n"
        "if TYPE_CHECKING:\n    import torch\ndef later():\n    import av\n"
    )

    assert lacking([file], {"numpy"}) == {"onnxruntime": ["model"]}
