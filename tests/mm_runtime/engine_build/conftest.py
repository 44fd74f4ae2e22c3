"""Plans and stores for builds; the torch-less ones take a tenth of a second each."""

from pathlib import Path

import pytest

from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.build_plans import build_plan
from support.build_sites import Site, text_only
from support.hollow_checkpoint import write_checkpoint
from support.model_configs import VERSIONS
from support.random_llava import write_random_llava
from support.trtllm_tools.install import Tools, install


@pytest.fixture
def site(tmp_path: Path) -> Site:
    source = write_checkpoint(tmp_path / "checkpoint")
    plan = text_only(build_plan(inspect(source, InspectOptions())))
    store = tmp_path / "store"
    store.mkdir()
    return Site(source, plan, store)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_llava(tmp_path_factory.mktemp("random") / "llava")


@pytest.fixture
def vision_site(tmp_path: Path, checkpoint: Path) -> Site:
    store = tmp_path / "store"
    store.mkdir()
    return Site(checkpoint, build_plan(inspect(checkpoint, InspectOptions())), store)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return install(tmp_path_factory.mktemp("tools") / "root", "0.20.0")


@pytest.fixture(scope="session")
def tool_sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tools]:
    root = tmp_path_factory.mktemp("tools")
    return {version: install(root / version, version) for version in VERSIONS}
