"""Small real HTTP servers on loopback that answer what a test wants."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Handler = Callable[["Exchange"], Awaitable[None]]


def dripping(first: bytes, piece: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Return what writes one piece after the other, each well within the time-out of a read."""

    async def speak(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)

    return speak


@dataclass
class Exchange:
    """One request as it came, without its body, and the writer for its answer."""

    path: str
    headers: dict[str, str]
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader

    async def answer(
        self, status: int, body: bytes = b"", *, length: bool = True, **headers: str
    ) -> None:
        """Send an answer; without `length` the body ends with the connection."""
        sent = {"connection": "close", **headers}
        if length:
            sent["content-length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self.writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body)
        await self.writer.drain()


@dataclass
class LocalServer:
    """A server that listens; what it was queried, and the names TLS clients gave."""

    port: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)


@asynccontextmanager
async def serve_local(
    handler: Handler, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[LocalServer]:
    """Serve on a free port of 127.0.0.1 while the block runs."""
    local = LocalServer()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            exchange = Exchange(head[0].split(" ")[1], headers, writer, reader)
            local.exchanges.append(exchange)
            await handler(exchange)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    if ssl_context is not None:
        ssl_context.sni_callback = lambda _, name, __: local.server_names.append(name)
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=ssl_context)
    local.port = server.sockets[0].getsockname()[1]
    try:
        yield local
    finally:
        server.close()
        await server.wait_closed()


@contextmanager
def served_in_threads(
    handler: type[BaseHTTPRequestHandler],
    host: str = "127.0.0.1",
    certificate: tuple[Path, Path] | None = None,
) -> Iterator[str]:
    """Serve without a log on a free port while the block runs; with a certificate by TLS."""
    quiet = type("Quiet", (handler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer((host, 0), quiet)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
