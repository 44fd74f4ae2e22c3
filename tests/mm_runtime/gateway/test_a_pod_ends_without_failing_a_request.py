"""The pair of a pod on its way out: streams finish, nothing stays in flight, exit codes are 0."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from support.real_gateway import run_pair
from support.tiny_llava import BuiltEngine, samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

CLIENTS = 8
PATH = "/v1/chat/completions"


def _body(model: str, **changes: object) -> dict[str, object]:
    return {"model": model, "messages": samples()[0].messages, **changes}


async def test_sigterm_under_load_fails_no_request(
    tiny_engine: BuiltEngine, tmp_path: Path
) -> None:
    """Eight clients query without pause while the gateway gets SIGTERM; each ends with an answer.

    A client stops at the first `Connection: close`, as it would go to another replica then.
    """
    with run_pair(tiny_engine, tmp_path) as pair:
        statuses: list[int] = []
        begun = asyncio.Barrier(CLIENTS + 1)

        async def query(client: httpx.AsyncClient) -> None:
            statuses.append((await client.post(PATH, json=_body(pair.model))).status_code)
            await begun.wait()
            while True:
                response = await client.post(PATH, json=_body(pair.model))
                statuses.append(response.status_code)
                if response.headers.get("connection") == "close":
                    return

        async with asyncio.timeout(240):
            clients = [httpx.AsyncClient(base_url=pair.url, timeout=120) for _ in range(CLIENTS)]
            requesting = [asyncio.create_task(query(client)) for client in clients]
            await begun.wait()
            pair.gateway.send_signal(signal.SIGTERM)
            await asyncio.gather(*requesting)
            for client in clients:
                await client.aclose()
        assert {200} == set(statuses)
        assert await asyncio.to_thread(pair.gateway.wait, 120) == 0
        assert await asyncio.to_thread(pair.stop, pair.server) == 0
