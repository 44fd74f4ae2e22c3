"""One Triton with the tiny model for all tests of this folder that need the real thing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import httpx
import pytest
import uvloop

from support.real_gateway import PROGRAM, RealGateway, run_pair
from support.tiny_llava import BuiltEngine, shared_engine

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def tiny_engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    return shared_engine(tmp_path_factory)


@pytest.fixture(scope="session")
def real(
    tiny_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealGateway]:
    """A gateway and its Triton, ready; what work costs was measured as in a pod."""
    folder = tmp_path_factory.mktemp("gateway-pair")
    with run_pair(tiny_engine, folder, program=PROGRAM, request_timeout_seconds=60) as pair:
        yield pair


@pytest.fixture
async def real_client(real: RealGateway) -> "AsyncIterator[AsyncOpenAI]":
    from openai import AsyncOpenAI  # noqa: PLC0415 (takes a second; most tests need no client)

    async with AsyncOpenAI(
        base_url=f"{real.url}/v1", api_key="none", max_retries=0, timeout=60
    ) as client:
        yield client


@pytest.fixture
async def real_http(real: RealGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=real.url, timeout=60) as client:
        yield client
