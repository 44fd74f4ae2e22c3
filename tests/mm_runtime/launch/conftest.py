"""A server on the engine with random weights."""

from collections.abc import Iterator

import pytest

from support.served import EngineFiles, Served, start_serving


@pytest.fixture(scope="module")
def served(random_engine: EngineFiles) -> Iterator[Served]:
    """A ready server for tests that leave it running."""
    with start_serving(random_engine.manifest, random_engine.serving) as server:
        server.wait_until_ready()
        yield server
