"""The server of the tiny LLaVA, one for all tests of a session that only query."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.build_plans import change_serving
from support.made_once import made_once
from support.served import Served, start_serving
from support.tiny_llava import ADAPTERS, CHECKPOINT, BuiltEngine, build_adapted, engine_in

BLS_INSTANCES = 4
"""More than the one that a plan has by default: clients query side by side here."""

FETCH_SECONDS = 10.0
"""How long an image may take: no longer than it must, for tests wait for a host that hangs."""

MAX_SEQ_LEN = 1024
"""All positions the checkpoint has: an answer that no one ends runs for seconds."""


@pytest.fixture(scope="session")
def built_engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    return engine_in(made_once(tmp_path_factory, "requested-engine", _build))


def _build(folder: Path) -> None:
    engine = build_adapted(folder, CHECKPOINT, ADAPTERS, {"max_seq_len": MAX_SEQ_LEN})
    fetches = {
        "allowed_hosts": ["localhost"],
        "allow_private_networks": True,
        "fetch_timeout_seconds": FETCH_SECONDS,
    }
    change_serving(engine.serving, gateway=fetches, bls_instances=BLS_INSTANCES, llmapi=True)


@pytest.fixture(scope="session")
def served(built_engine: BuiltEngine) -> Iterator[Served]:
    pods = ("--address", "127.0.0.1", "--page-address", "0.0.0.0")  # noqa: S104
    with start_serving(built_engine.manifest, built_engine.serving, *pods) as server:
        server.wait_until_ready()
        yield server
