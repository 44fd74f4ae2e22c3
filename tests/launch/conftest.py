"""An engine with random weights, built once, and a server on it."""

from collections.abc import Iterator

import pytest

from mm_runtime.cli import main
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.build_plans import build_plan, serving_plan
from support.random_llava import write_random_llava
from support.served import EngineFiles, Served, start_serving


@pytest.fixture(scope="session")
def random_engine(tmp_path_factory: pytest.TempPathFactory) -> EngineFiles:
    """Build an engine from random weights."""
    folder = tmp_path_factory.mktemp("random-engine")
    source = write_random_llava(folder / "checkpoint")
    plan = build_plan(inspect(source, InspectOptions()))
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "serving.json").write_text(serving_plan(plan.fingerprint).to_json())
    store = folder / "store"
    where = ["--source", str(source), "--store", str(store)]
    assert main(["build", "--plan", str(folder / "plan.json"), *where]) == 0
    return EngineFiles(BuildPaths(store, plan.fingerprint).manifest, folder / "serving.json")


@pytest.fixture(scope="module")
def served(random_engine: EngineFiles) -> Iterator[Served]:
    """A ready server for tests that leave it running."""
    with start_serving(random_engine.manifest, random_engine.serving) as server:
        server.wait_until_ready()
        yield server
