"""The operator knows what waits in routers, and when it cannot know."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mm_api.documents.router_state import PATH, RouterState
from mm_operator.cluster.keys import Key
from mm_operator.servers import routers
from mm_operator.servers.rounds import session
from mm_operator.servers.routers import Routers
from support.cases import cases
from support.ports import free_ports

LLAVA, QWEN = Key("blue", "llava"), Key("red", "qwen")
FIRST, SECOND = "127.0.0.2", "127.0.0.3"


@asynccontextmanager
async def answering(port: int, **bodies: bytes) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name, body in bodies.items():

            async def answer(_: web.Request, body: bytes = body) -> web.Response:
                return web.Response(body=body)

            app = web.Application()
            app.router.add_get(PATH, answer)
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, f"127.0.0.{name.removeprefix('at')}", port).start()
        yield


def slice_of(*endpoints: tuple[str, bool], uid: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid},
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": ready}} for address, ready in endpoints
        ],
    }


def state(namespaces: Sequence[str] = (), **held: int) -> bytes:
    named = {str(key): held[key.name] for key in (LLAVA, QWEN) if key.name in held}
    waited = {name: 10.0 * count for name, count in named.items()}
    said = RouterState(namespaces=list(namespaces), held=named, waited_seconds=waited)
    return said.to_json().encode()


async def looked(
    *endpoints: tuple[str, bool], **bodies: bytes
) -> tuple[Routers, list[Sequence[Key]]]:
    woken: list[Sequence[Key]] = []

    async def wake(keys: Sequence[Key]) -> None:
        woken.append(keys)

    (port,) = free_ports(1)
    found = Routers(None, "home", "front", port=port)  # type: ignore[arg-type]  # nothing is listed
    found.put("EndpointSlice", slice_of(*endpoints))
    async with answering(port, **bodies), session() as opened:
        await found.look(opened, wake)
    return found, woken


async def test_what_waits_in_all_of_them_is_counted() -> None:
    """One that ends holds requests as well."""
    found, woken = await looked(
        (FIRST, True), (SECOND, False), at2=state(llava=2), at3=state(llava=1, qwen=4)
    )

    assert (found.held(LLAVA), found.held(QWEN), found.held(Key("blue", "qwen"))) == (3, 4, 0)
    assert (found.waited_seconds(LLAVA), found.waited_seconds(QWEN)) == (20.0, 40.0)
    assert woken == [[LLAVA, QWEN]]
    assert found.problem("blue") == ""


@cases(
    "endpoints bodies problem",
    {
        "none": ((), {}, "or there is none"),
        "silent": (((FIRST, True), (SECOND, True)), {"at2": state()}, "does not answer"),
        "silent-and-ends": (((FIRST, True), (SECOND, False)), {"at2": state()}, ""),
        "strange": (((FIRST, True),), {"at2": b'{"held": 1}'}, "does not answer"),
        "endless": (((FIRST, True),), {"at2": b"x" * (2 << 20)}, "does not answer"),
        "elsewhere": (((FIRST, True),), {"at2": state(["red"])}, "router.namespaces"),
        "there": (((FIRST, True),), {"at2": state(["red", "blue"])}, ""),
    },
)
async def test_where_requests_may_be_lost_it_says_so(
    endpoints: tuple[tuple[str, bool], ...], bodies: dict[str, bytes], problem: str
) -> None:
    found, woken = await looked(*endpoints, **bodies)

    assert problem in found.problem("blue")
    assert bool(problem) == bool(found.problem("blue"))
    assert woken == []


async def test_an_answer_is_news_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = await looked((FIRST, True), at2=state())
    monkeypatch.setattr(routers, "_SILENT_SECONDS", 0.0)

    assert "does not answer" in found.problem("blue")


async def test_routers_that_are_gone_are_forgotten() -> None:
    found, _ = await looked((FIRST, True), at2=state(llava=1))
    found.put("EndpointSlice", slice_of(uid="2"))
    found.keep("EndpointSlice", ["2"], namespace="home", version=1)
    async with session() as opened:
        await found.look(opened, lambda _: pytest.fail("nothing waits"))

    assert (found.held(LLAVA), bool(found.problem("blue"))) == (0, True)
