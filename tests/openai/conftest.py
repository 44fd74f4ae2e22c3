"""One server for all parameters: a model that can say any text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from support import calling_llava, tool_templates
from support.made_once import made_once
from support.real_gateway import run_pair
from support.tiny_llava import build_adapted, engine_in


def _build(folder: Path) -> None:
    checkpoint = calling_llava.write_calling_llava(folder / "checkpoint", tool_templates.HERMES)
    build_adapted(folder, checkpoint, {}, calling_llava.LIMITS)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "calling-engine", _build) / "checkpoint"


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    engine = engine_in(made_once(tmp_path_factory, "calling-engine", _build))
    with (
        run_pair(engine, tmp_path_factory.mktemp("pair"), request_timeout_seconds=60) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield openai
