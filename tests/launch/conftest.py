"""An engine with random weights, built once, and a server on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.cli import main
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.build_plans import build_plan, serving_plan
from support.made_once import made_once
from support.random_llava import write_random_llava
from support.served import EngineFiles, Served, start_serving


@pytest.fixture(scope="session")
def random_engine(tmp_path_factory: pytest.TempPathFactory) -> EngineFiles:
    """Build an engine from random weights."""
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


@pytest.fixture(scope="module")
def served(random_engine: EngineFiles) -> Iterator[Served]:
    """A ready server for tests that leave it running."""
    with start_serving(random_engine.manifest, random_engine.serving) as server:
        server.wait_until_ready()
        yield server
