"""Engines that are built once, and one loaded language model, for all tests of the runtime.

What needs torch or Triton is imported by the fixtures: tests that use none are unit tests.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.cli import main
from mm_runtime.doctor.observe import interpreter
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.build_plans import build_plan, serving_plan
from support.forked_steps import ForkedStep
from support.made_once import made_once
from support.random_llava import write_random_llava
from support.served import EngineFiles, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mm_runtime.reference_engine.language_model import LanguageModel
    from support.engines import StartEngine
    from support.ensemble import Ensemble


@pytest.fixture
def quick_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds in this process fork their steps: for tests that are not about processes."""
    monkeypatch.setattr("mm_runtime.engine_build.runner.ChildProcess", ForkedStep)
    interpreter(sys.executable)  # builders that are forked have its answer, too


@pytest.fixture(scope="session")
def language_model() -> "LanguageModel":
    from support.engines import load_language_model  # noqa: PLC0415 (see module)

    return load_language_model()


@pytest.fixture
def start_engine(language_model: "LanguageModel") -> "StartEngine":
    from support.engines import engine_starter  # noqa: PLC0415

    return engine_starter(language_model)


@pytest.fixture(scope="session")
def random_engine(tmp_path_factory: pytest.TempPathFactory) -> EngineFiles:
    folder = made_once(tmp_path_factory, "random-engine", _build)
    plan = BuildPlan.from_json((folder / "plan.json").read_bytes())
    manifest = BuildPaths(folder / "store", plan.fingerprint).manifest
    return EngineFiles(manifest, folder / "serving.json")


def _build(folder: Path) -> None:
    source = write_random_llava(folder / "checkpoint")
    plan = build_plan(inspect(source, InspectOptions()))
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "serving.json").write_text(serving_plan(plan.fingerprint).to_json())
    where = ["--source", str(source), "--store", str(folder / "store")]
    assert main(["build", "--plan", str(folder / "plan.json"), *where]) == 0


@pytest.fixture
def ensemble(served: Served) -> "Iterator[Ensemble]":
    from support.ensemble import Ensemble  # noqa: PLC0415

    with Ensemble(served.grpc_url) as client:
        yield client
