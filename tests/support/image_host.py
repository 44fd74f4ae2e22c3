"""A host of images on loopback that behaves and misbehaves, for as long as a test session."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.tiny_llava import IMAGES

GIGABYTE = 1 << 30
HANG_SECONDS = 60
"""Longer than any fetch may take."""

CHUNK = b"x" * 65_536


@dataclass(frozen=True)
class ImageHost:
    """Where the host listens."""

    port: int
    release: Callable[[], None]
    """Lets the page `late` answer."""
    requested: list[str]
    """Names of the pages that someone requested, in order."""

    def url(self, path: str) -> str:
        """Return the URL of one of its pages; its name is the one that the policy allows."""
        return f"http://localhost:{self.port}/{path}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ended = threading.Event()
        self.released = threading.Event()
        self.requested: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    """Answers by path: a file of the example's images, or one of the ways to misbehave."""

    server: _Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        self.server.requested.append(name)
        ways: dict[str, Callable[[], None]] = {
            "hang": self._hang,
            "late": self._wait,
            "away": self._redirect,
            "page": lambda: self._answer(b"<html></html>", content_type="text/html"),
            "gigabyte": lambda: self._pour(content_length=str(GIGABYTE)),
            "endless": self._pour,
        }
        if name in ways:
            ways[name]()
        elif (IMAGES / name).is_file():
            self._answer((IMAGES / name).read_bytes())
        else:
            self._head(404, content_length="0")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _hang(self) -> None:
        self.server.ended.wait(HANG_SECONDS)

    def _wait(self) -> None:
        self.server.released.wait(HANG_SECONDS)
        self._answer((IMAGES / "red-square.png").read_bytes())

    def _redirect(self) -> None:
        self._head(302, location=f"http://127.0.0.1:{self.server.server_port}/red-square.png")

    def _answer(self, content: bytes, **headers: str) -> None:
        self._head(200, content_length=str(len(content)), **headers)
        self.wfile.write(content)

    def _pour(self, **headers: str) -> None:
        self._head(200, **headers)
        try:
            for _ in range(GIGABYTE // len(CHUNK)):
                self.wfile.write(CHUNK)
        except OSError:
            return  # it has received enough

    def _head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()


@contextmanager
def serve_images() -> Iterator[ImageHost]:
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield ImageHost(server.server_port, server.released.set, server.requested)
        finally:
            server.ended.set()
            server.released.set()
            server.shutdown()
            thread.join()
