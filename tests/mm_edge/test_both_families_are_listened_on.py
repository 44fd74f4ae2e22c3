"""A server on an open port answers on every address of a pod, whichever family that has."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from mm_edge import listening
from mm_edge.connection import ConnectionLimits
from mm_edge.listening import listening_sockets
from mm_edge.server import edge_server
from support.eventually import eventually_async

SECONDS = 60
EVERYWHERE = "0.0.0.0"  # noqa: S104


@pytest.fixture(scope="module", autouse=True)
def _ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")


def peers(sockets: list[socket.socket]) -> list[str]:
    port = sockets[0].getsockname()[1]
    found = []
    for one, address in zip(sockets, ("127.0.0.1", "::1"), strict=True):
        one.settimeout(SECONDS)
        with socket.create_connection((address, port), SECONDS), one.accept()[0] as accepted:
            found.append(accepted.getpeername()[0])
            unsent = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
            assert unsent == listening.UNSENT_BYTES
    return found


@pytest.mark.parametrize("everywhere", [EVERYWHERE, "::"])
def test_one_port_of_both_families(everywhere: str) -> None:
    sockets = listening_sockets(everywhere, 0)
    try:
        assert peers(sockets) == ["127.0.0.1", "::1"]
    finally:
        for one in sockets:
            one.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_listened_on_alone(address: str) -> None:
    (one,) = listening_sockets(address, 0)
    with one:
        assert one.getsockname()[0] == address


@pytest.mark.parametrize("address", [EVERYWHERE, "127.0.0.1"])
async def test_small_writes_do_not_wait(address: str) -> None:
    """A server's connections send what they are given at once (TCP_NODELAY)."""
    sockets = listening_sockets(address, 0)
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        await writer.wait_closed()

    servers = [await asyncio.start_server(connected, sock=one) for one in sockets]
    port = sockets[0].getsockname()[1]
    _, client = await asyncio.open_connection("127.0.0.1", port)

    assert await asyncio.wait_for(found, SECONDS) != 0

    client.close()
    await client.wait_closed()
    for server in servers:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL], ids=["built", "off"])
def test_without_ipv6_the_other_one_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """A kernel without IPv6, and one where it is switched off; the log says so."""
    create = socket.create_server

    def without(address: tuple[str, int], **options: Any) -> socket.socket:
        if options.get("family") == socket.AF_INET6:
            raise OSError(number, "no IPv6")
        return create(address, **options)

    monkeypatch.setattr(listening.socket, "create_server", without)
    (one,) = listening_sockets(EVERYWHERE, 0)
    with one:
        assert one.family == socket.AF_INET
        port = one.getsockname()[1]
    assert caplog.messages == [
        f"no IPv6 here ([Errno {number}] no IPv6): port {port} listens on IPv4 only"
    ]


def test_a_port_that_is_taken_is_an_error_and_nothing_stays_open() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listening_sockets(EVERYWHERE, port)
        socket.create_server((EVERYWHERE, port)).close()


async def test_a_server_does_not_serve_one_family_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Where IPv6's port is taken uvicorn would listen on IPv4; a pod may have no such address."""
    with socket.create_server(("::", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        server = edge_server(None, ConnectionLimits(), EVERYWHERE, port)
        with pytest.raises(SystemExit):
            await server.startup()
        socket.create_server((EVERYWHERE, port)).close()
    assert f"cannot listen on {EVERYWHERE}:{port}" in caplog.text


async def test_a_server_answers_over_both() -> None:
    """As gateway and router run it; probes and Services come by the address that a pod has."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG001
        client = scope["client"][0].encode()
        length = (b"content-length", str(len(client)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": client})

    server = edge_server(app, ConnectionLimits(), EVERYWHERE, 0)
    serving = asyncio.create_task(server.serve())
    try:
        await eventually_async(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        found = []
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
            found.append((await asyncio.wait_for(reader.read(), SECONDS)).split(b"\r\n")[-1])
            writer.close()
        assert found == [b"127.0.0.1", b"::1"]
    finally:
        server.should_exit = True
        await serving
