"""A server on the engine with random weights."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.served import EngineFiles, Served, start_serving


@pytest.fixture(scope="module")
def start(
    random_engine: EngineFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Served]]:
    """Return the module's ready server: started unless it runs, in the folder of the one before."""
    folder = tmp_path_factory.mktemp("served")
    running: list[Served] = []
    with ExitStack() as stack:

        def ready() -> Served:
            if not running or running[-1].process.poll() is not None:
                files = (random_engine.manifest, random_engine.serving)
                running.append(stack.enter_context(start_serving(*files, folder=folder)))
                running[-1].wait_until_ready()
            return running[-1]

        yield ready


@pytest.fixture
def served(start: Callable[[], Served]) -> Served:
    return start()
