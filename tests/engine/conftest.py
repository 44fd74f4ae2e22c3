"""One built engine and one loaded language model for all tests of this folder.

What needs torch or Triton is imported by the fixtures: tests that use none are unit tests.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.served import Served, start_serving
from support.tiny_llava import BuiltEngine, shared_engine

if TYPE_CHECKING:
    from mm_runtime.reference_engine.language_model import LanguageModel
    from support.engines import StartEngine
    from support.ensemble import Ensemble

MAX_SEQ_LEN = 1024
"""All positions the checkpoint has: an answer that nobody ends runs for seconds."""


@pytest.fixture(scope="session")
def language_model() -> "LanguageModel":
    """The tiny model's language model with four slots."""
    from support.engines import load_language_model  # noqa: PLC0415 (see module)

    return load_language_model()


@pytest.fixture
def start_engine(language_model: "LanguageModel") -> "StartEngine":
    """Start engines on the shared model, one at a time."""
    from support.engines import engine_starter  # noqa: PLC0415

    return engine_starter(language_model)


@pytest.fixture(scope="session")
def built_engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    """An engine built from the committed checkpoint by the real commands."""
    return shared_engine(tmp_path_factory, max_seq_len=MAX_SEQ_LEN)


@pytest.fixture(scope="session")
def served(built_engine: BuiltEngine) -> Iterator[Served]:
    """The real tritonserver on the built engine."""
    with start_serving(built_engine.manifest, built_engine.serving) as server:
        server.wait_until_ready()
        yield server


@pytest.fixture
def ensemble(served: Served) -> "Iterator[Ensemble]":
    """A fresh stream to the server's ensemble."""
    from support.ensemble import Ensemble  # noqa: PLC0415

    with Ensemble(served.grpc_url) as client:
        yield client
