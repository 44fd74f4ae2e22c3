"""Builds that stage a checkpoint for TensorRT-LLM on PyTorch: real configs, hollow weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_api.contract import ExitCode
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildResult
from mm_api.families import FAMILIES
from mm_runtime.backends import steps
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.run import BuildOptions, build
from mm_runtime.engine_build.step import Step
from mm_runtime.inspect.weights import read, read_parts
from mm_runtime.sources.identity import PARTS, source_digest
from support.hollow_checkpoint import write_safetensors
from support.model_configs import ON_PYTORCH, facts_of, planned
from support.trtllm_sites import Site, write_model

STEP_SECONDS = 240.0
"""Of each step: a busy machine needs more than 60 to load torch."""


@dataclass(frozen=True)
class StagingSite(Site):
    """Its engine is the checkpoint."""

    source: Path

    @property
    def staged(self) -> Path:
        return self.paths.engine / "checkpoint"

    def build(self) -> tuple[BuildResult, ExitCode]:
        where = (self.plan, str(self.source), self.store, STEP_SECONDS)
        options = BuildOptions(*where, steps=_hollow_steps)
        return build(options, StopSignal())


def _hollow_steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps without the one that compares weights with their class: they are of none."""
    return tuple(one for one in steps(plan) if one.name != "verify-weights")


def write_source(folder: Path, family: str) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_model(folder, family)
    for part in PARTS:
        if (
            FAMILIES[family].checkpoint.in_parts
            and not (folder / part / "model.safetensors").is_file()
        ):
            (folder / part).mkdir(exist_ok=True)
            write_safetensors(folder / part / "model.safetensors", {"b": ("F16", (3, 5))})
    return folder


def staging_site(
    folder: Path,
    family: str = "qwen2-vl",
    engine: Mapping[str, Any] | None = None,
    *,
    source: Path | None = None,
    version: str = "1.1.0",
    allow_pickle: bool = False,
) -> StagingSite:
    source = source or write_source(folder / "source", family)
    parts = tuple(part for part in PARTS if (source / part).is_dir())
    found = (
        read_parts(source, parts, allow_pickle=allow_pickle, config_dtype="float16")
        if parts
        else read(source, allow_pickle=allow_pickle, config_dtype="float16")
    )
    facts = facts_of(family).model_copy(
        update={
            "source_digest": source_digest(source),
            "parameters": found.parameters,
            "weight_format": found.format,
        }
    )
    fields = {"backend": "PyTorch", **ON_PYTORCH[family], **(engine or {})}
    complete = planned(
        family,
        fields,
        version=version,
        facts=facts,
        model={"allowPickle": allow_pickle},
        build={"evaluation": "Off"},  # hollow weights have no answers
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    store = folder / "store"
    store.mkdir(parents=True, exist_ok=True)
    return StagingSite(source, store, complete.build_plan, complete)
