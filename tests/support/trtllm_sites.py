"""Builds of TensorRT engines without a GPU: real configurations, hollow weights, recorded tools."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_ctl.commands.plan import as_commands
from mm_runtime.backends import steps
from mm_runtime.base import manifest as manifests
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.run import BuildOptions, build
from mm_runtime.engine_build.step import Step
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.sources.identity import source_digest
from support.hollow_checkpoint import CHAT, hollow_tensors, write_safetensors, write_words
from support.model_configs import MODELS, facts_of, planned
from support.trtllm_tools.install import Tools


@dataclass(frozen=True)
class Site:
    """A checkpoint, its plan and a store."""

    source: str | Path
    store: Path
    plan: BuildPlan
    planned: ModelPlan

    @property
    def paths(self) -> BuildPaths:
        return BuildPaths.of(self.store, self.plan)

    @property
    def arguments(self) -> list[str]:
        path = self.store.parent / "plan.json"
        path.write_text(self.plan.to_json())
        where = ["--plan", str(path), "--source", str(self.source)]
        return ["build", *where, "--store", str(self.store)]


@dataclass(frozen=True)
class TrtllmSite(Site):
    """A site with the tools."""

    source: str
    tools: Tools

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.tools.environment(os.environ["PATH"])}

    def build(self, *, step_seconds: float = 240) -> tuple[BuildResult, ExitCode]:
        where = (self.plan, self.source, self.store, step_seconds)
        options = BuildOptions(*where, steps=hollow_steps, trtllm_root=self.tools.root)
        return build(options, StopSignal())


def hollow_steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps of a build whose weights may be hollow: those are of no class."""
    hollow = plan.engine.evaluation == "Off"
    return tuple(one for one in steps(plan) if not (hollow and one.name == "verify-weights"))


def write_model(folder: Path, family: str, *, inspected: bool = False) -> Path:
    MODELS[family].write(folder)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    write_tokenizer(folder, family, image=inspected)
    if FAMILIES[family].checkpoint.in_parts:
        (folder / "llm").mkdir()
        write_tokenizer(folder / "llm", family, image=inspected)
        write_safetensors(folder / "llm" / "model.safetensors", {"a": ("F16", (8, 11))})
    elif inspected:
        config = json.loads((folder / "config.json").read_text())
        write_safetensors(folder / "model.safetensors", hollow_tensors(config))
    else:
        name = "model.encoder.conv1.weight"  # a name that Whisper has, and no one else minds
        write_safetensors(folder / "model.safetensors", {name: ("F16", (8, 11))})
    return folder


def write_tokenizer(folder: Path, family: str, *, image: bool = True) -> None:
    """Write the smallest fast tokenizer: two tokens and its end, and a template where it must."""
    style, id_ = FAMILIES[family].prompt, facts_of(family).image_token_id
    tokens = {"red": 1}
    if image and id_ is not None:
        feature = "<image_soft_token>" if style and style.framed.count("_soft_") else None
        tokens[feature or (style.placeholder if style else "<image>")] = id_
    write_words(folder, tokens, CHAT if style is not None and not style.chat else "")


def trtllm_site(
    folder: Path,
    tools: Tools,
    family: str,
    engine: Mapping[str, Any] | None = None,
    *,
    gpu: str = "h100-80gb",
    source: Path | None = None,
) -> TrtllmSite:
    """Return a site for one family.

    `engine`: fields of the resource. `source`: a small checkpoint, which a builder in a process of
    its own compares with its class; None: hollow weights.
    """
    folder.mkdir(exist_ok=True)
    if source is None:
        source = write_model(folder / "source", family)
        facts = facts_of(family).model_copy(update={"source_digest": source_digest(source)})
    else:
        facts = inspect(source, InspectOptions())
    complete = planned(
        family,
        engine,
        version=tools.version,
        gpu=gpu,
        facts=facts,
        build={"evaluation": "Off"},  # hollow weights have no answers
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    store = folder / "store"
    store.mkdir()
    return TrtllmSite(str(source), store, complete.build_plan, complete, tools)


def assert_family_is_built(site: TrtllmSite, family: str) -> None:
    """Build; the engines are complete, and what was run is what `-o commands` prints."""
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    manifest = manifests.read(site.paths.manifest)
    manifests.verify(site.paths.engine, manifest)
    files = {file.path for file in manifest.files}
    record = FAMILIES[family]
    folders = {"encoder", "decoder"} if record.kind is Kind.ENCODER_DECODER else {"llm"}
    if record.trtllm.vision_type:
        assert "multimodal_encoder/model.engine" in files
    assert {f"{folder}/rank0.engine" for folder in folders} <= files
    assert list(journalled(site).values()) == printed(site)
    assert (manifest.versions["tensorrt_llm"], manifest.gpu is not None) == (
        site.tools.version,
        True,
    )


def journalled(site: TrtllmSite) -> dict[str, list[str]]:
    """Return step -> command as the finished engine's journal has it."""
    journal = json.loads((site.paths.engine / "build" / "journal.json").read_text())
    return {entry["record"]["name"]: entry["argv"] for entry in journal["entries"] if entry["argv"]}


def printed(site: TrtllmSite) -> list[list[str]]:
    text = as_commands(site.planned).replace("\\\n", " ")
    lines = [shlex.split(line) for line in text.splitlines() if line[:1] not in {"#", ""}]
    return [line for line in lines if line != ["set", "-eu"]]


def use_site(monkeypatch: pytest.MonkeyPatch, site: TrtllmSite) -> TrtllmSite:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    return site
