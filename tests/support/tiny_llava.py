"""The committed tiny model: where it lies, images with known answers, an engine built from it.

The engine is built by the real `mm-runtime inspect` and `mm-runtime build`.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.model_facts import InspectResult
from support.build_plans import build_plan, serving_plan
from support.images import data_url
from support.made_once import made_once

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-llava"
CHECKPOINT = EXAMPLE / "checkpoint"
IMAGES = EXAMPLE / "images"
ADAPTERS = {"colors": EXAMPLE / "adapters" / "colors"}
"""Name -> folder of each committed LoRA adapter."""

FEATURES_PER_IMAGE = 16
IMAGE_SIDE = 56
VOCABULARY = 91
END_ID = 3
BUILD_DEADLINE_SECONDS = 240
"""A build takes 8 s of processor time; the machine may be busy."""


@dataclass(frozen=True)
class Sample:
    """One image, a question about it and its right answer."""

    image: Path
    question: str
    answer: str

    @property
    def id(self) -> str:
        return f"{self.image.stem}-{self.question}"

    @property
    def messages(self) -> list[dict[str, Any]]:
        url = {"url": data_url(self.image.read_bytes())}
        parts = [{"type": "text", "text": self.question}, {"type": "image_url", "image_url": url}]
        return [{"role": "user", "content": parts}]


def samples() -> list[Sample]:
    answers = json.loads((IMAGES / "answers.json").read_text())
    return [
        Sample(IMAGES / name, question, answer)
        for name, questions in answers.items()
        for question, answer in questions.items()
    ]


@dataclass(frozen=True)
class BuiltEngine:
    """An engine directory and a serving plan for it."""

    directory: Path
    serving: Path

    @property
    def manifest(self) -> Path:
        return self.directory / "manifest.json"


def shared_engine(factory: pytest.TempPathFactory, **limits: int) -> BuiltEngine:
    name = "-".join(["tiny-engine", *(f"{limit}-{value}" for limit, value in limits.items())])
    return engine_in(
        made_once(factory, name, lambda folder: build_adapted(folder, CHECKPOINT, {}, limits))
    )


def engine_in(folder: Path) -> BuiltEngine:
    plan = BuildPlan.from_json((folder / "plan.json").read_bytes())
    return BuiltEngine(folder / "store" / "engines" / plan.fingerprint, folder / "serving.json")


def build_engine(folder: Path, checkpoint: Path = CHECKPOINT, **limits: int) -> BuiltEngine:
    return build_adapted(folder, checkpoint, {}, limits)


def build_adapted(
    folder: Path, checkpoint: Path, adapters: Mapping[str, Path], limits: Mapping[str, int]
) -> BuiltEngine:
    given = [word for name, path in adapters.items() for word in ("--adapter", f"{name}={path}")]
    facts = InspectResult.from_json(mm_runtime("inspect", "--source", checkpoint, *given)).facts
    assert facts is not None
    plan = build_plan(facts, adapters=adapters)
    if limits:
        changed = plan.engine.limits.model_copy(update=dict(limits))
        plan = plan.model_copy(
            update={"engine": plan.engine.model_copy(update={"limits": changed})}
        )
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "serving.json").write_text(serving_plan(plan.fingerprint).to_json())
    store = folder / "store"
    mm_runtime("build", "--plan", folder / "plan.json", "--source", checkpoint, "--store", store)
    return engine_in(folder)


def mm_runtime(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "mm_runtime", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=BUILD_DEADLINE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
