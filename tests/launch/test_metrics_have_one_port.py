"""The metrics port tells what tritonserver cannot, with and without a server behind it."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch.exposition import Exposition, free_port
from mm_runtime.settings import Ports

POOLS = MemoryPools(cuda_bytes=67108864, pinned_bytes=1024, shm_bytes=1)
FULL = (
    "W1121 10:00:00.1 77 memory.cc:183] failed to allocate CUDA memory with byte size 512 on GPU 0:"
    " CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory"
)


class Inner(BaseHTTPRequestHandler):
    """Stands where tritonserver's own metrics port is."""

    def do_GET(self) -> None:
        """Answer with one series."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"nv_inference_count 7\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's)
        """Keep quiet."""


@pytest.fixture
def inner() -> Iterator[int]:
    """The port of a server's own metrics."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Inner)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def scrape(port: int, path: str = "/metrics") -> httpx.Response:
    """Ask as a scraper does."""
    return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=10)


def test_both_texts_are_shown(inner: int) -> None:
    """The server's series come first, the supervisor's after them."""
    shown = free_port()
    with Exposition(Ports(metrics=shown), Ports(metrics=inner), POOLS):
        lines = scrape(shown).text.splitlines()
    assert lines[0] == "nv_inference_count 7"
    assert 'mm_server_pool_planned_bytes{pool="cuda"} 6.7108864e+07' in lines


def test_a_dead_server_hides_nothing_of_ours() -> None:
    """Without tritonserver the port still answers, with what the supervisor knows."""
    shown = free_port()
    with Exposition(Ports(metrics=shown), Ports(metrics=free_port()), POOLS) as told:
        told.restarted()
        answer = scrape(shown)
        missing = scrape(shown, "/other")
    assert "mm_server_restarts_total 1.0" in answer.text.splitlines()
    assert "nv_" not in answer.text
    assert (answer.status_code, missing.status_code) == (200, 404)


def test_a_full_pool_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Triton's one warning becomes a number and words that say what to do; lines pass on."""
    passed: list[str] = []
    shown = free_port()
    with Exposition(Ports(metrics=shown), Ports(metrics=free_port()), POOLS) as told:
        watch = told.watch(passed.append)
        for line in ("I1121 10:00:00.0 77 server.cc:1] started", FULL):
            watch(line)
        lines = scrape(shown).text.splitlines()
    assert "mm_server_pool_fallbacks_total 1.0" in lines
    assert passed[-1] == FULL
    assert "the CUDA pool of 67108864 bytes is full" in caplog.text
    assert "spec.runtime.memoryPools.cuda" in caplog.text


def test_a_taken_port_is_named() -> None:
    """A second server on the same port is an error that names the flag."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailedError, match=rf"metrics port {port}.*--metrics-port"):
            Exposition(Ports(metrics=port), Ports(metrics=free_port()), POOLS)
