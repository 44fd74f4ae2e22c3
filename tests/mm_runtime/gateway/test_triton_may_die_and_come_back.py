"""A killed server costs the requests it had; the gateway reports them, waits, and continues."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from support.ended import kill_tree
from support.eventually import eventually_async
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine, samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]


def _body(pair: RealGateway, **changes: object) -> dict[str, object]:
    return {"model": pair.model, "messages": samples()[0].messages, **changes}


HELD_BY = {"postprocessing": "tensorrt_llm"}
"""Victim -> the process that requests wait for; the gateway makes text of tokens itself, so that
none waits for postprocessing. Others hold them themselves."""
VICTIMS = ("tritonserver", "preprocessing", "multimodal_encoders", "tensorrt_llm", "postprocessing")


def _process(pair: RealGateway, folder: Path, victim: str) -> int:
    (server,) = Path(f"/proc/{pair.server.pid}/task/{pair.server.pid}/children").read_text().split()
    if victim == "tritonserver":
        return int(server)
    program = f"{folder}/triton/repository/{victim}/1/model.py"
    stubs = [
        child
        for task in Path(f"/proc/{server}/task").iterdir()
        for child in (task / "children").read_text().split()
        if program in Path(f"/proc/{child}/cmdline").read_text().split("\0")
    ]
    return int(stubs[0])


@pytest.mark.slow  # a server for each; the next test kills one in every run
@pytest.mark.parametrize("victim", VICTIMS)
async def test_what_was_in_flight_may_come_again(
    tiny_engine: BuiltEngine, tmp_path: Path, victim: str
) -> None:
    """503 with `Retry-After`, entire or streamed; the pod is back without anyone's help.

    A process is stopped before one is killed, so that requests are in flight then.
    """
    with run_pair(tiny_engine, tmp_path) as pair:
        process = _process(pair, tmp_path, victim)
        holding = _process(pair, tmp_path, HELD_BY.get(victim, victim))
        os.kill(holding, signal.SIGSTOP)
        async with httpx.AsyncClient(base_url=pair.url, timeout=60) as client:
            requested = [
                asyncio.create_task(
                    client.post("/v1/chat/completions", json=_body(pair, stream=bool(number % 2)))
                )
                for number in range(4)
            ]

            async def accepted() -> bool:
                page = (await client.get("/metrics")).text
                return f'mm_requests_accepted_total{{model="{pair.model}"}} 4.0' in page

            await eventually_async(accepted, seconds=60)
            os.kill(process, signal.SIGKILL)
            reported = await asyncio.gather(*requested)
            assert [(one.status_code, one.headers.get("retry-after")) for one in reported] == [
                (503, "1")
            ] * 4, [one.text for one in reported]
            assert {"engine_unavailable"} == {one.json()["error"]["code"] for one in reported}

            async def answers() -> bool:
                again = await client.post("/v1/chat/completions", json=_body(pair))
                return again.status_code == httpx.codes.OK

            await eventually_async(answers, seconds=120, pause_seconds=0.2)


async def test_readiness_follows_triton_and_requests_are_reported(
    tiny_engine: BuiltEngine, tmp_path: Path
) -> None:
    """Unready and 503 while Triton is away, alive all the time, ready again by itself."""
    with run_pair(tiny_engine, tmp_path) as pair:
        async with httpx.AsyncClient(base_url=pair.url, timeout=60) as client:
            assert (await client.post("/v1/chat/completions", json=_body(pair))).status_code == 200
            await asyncio.to_thread(kill_tree, pair.server)

            async def ready() -> bool:
                return (await client.get("/readyz")).status_code == httpx.codes.OK

            async def away() -> bool:
                return not await ready()

            await eventually_async(away)
            refused = await client.post("/v1/chat/completions", json=_body(pair))
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["error"]["code"] == "engine_unavailable"
            assert (await client.get("/healthz")).status_code == 200
            pair.restart_server()
            await eventually_async(ready, seconds=120, pause_seconds=0.2)
            assert (await client.post("/v1/chat/completions", json=_body(pair))).status_code == 200
