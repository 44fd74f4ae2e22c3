"""The metrics port reports what tritonserver cannot, with and without a server behind it."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mm_api.documents.server_state import PoolState, ServerState
from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.base.faults import NO_KERNELS
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch.exposition import Exposition
from mm_runtime.settings import Ports
from support.http_servers import served_in_threads
from support.ports import free_ports

POOLS = MemoryPools(cuda_bytes=67108864, pinned_bytes=1024, shm_bytes=1)
FULL = (
    "W1121 10:00:00.1 77 memory.cc:183] failed to allocate CUDA memory with byte size 512 on GPU 0:"
    " CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory"
)


FULL_PINNED = (
    "W1121 10:00:00.2 77 pinned_memory_manager.cc:170] failed to allocate pinned system memory,"
    " falling back to non-pinned system memory"
)
NO_PINNED = (
    "W1121 10:00:00.2 77 pinned_memory_manager.cc:170] failed to allocate pinned system memory: no"
    " pinned memory pool, falling back to non-pinned system memory"
)
THEIRS = """\
# HELP nv_inference_count Number of inferences performed
# TYPE nv_inference_count counter
nv_inference_count{model="ensemble",version="1"} 7
nv_cpu_utilization 0.5
nv_odd{path="C:\\\\",text="a } b,model=\\"x\\"", model="m"} 1 17
"""
"""The last line is no series of Triton's: what its text format allows beside."""


class Inner(BaseHTTPRequestHandler):
    """Stands where tritonserver's own metrics port is."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(THEIRS.encode())


@pytest.fixture
def inner() -> Iterator[int]:
    with served_in_threads(Inner) as url:
        yield int(url.rpartition(":")[2])


def scrape(port: int, path: str = "/metrics") -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60)


def test_the_page_is_shown_over_ipv6(inner: int) -> None:
    """A pod may have no other address, and the kubelet's probes come by the one it has."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    shown = free_ports(1)[0]
    ports = Ports(metrics=shown, page_address="0.0.0.0")  # noqa: S104
    with Exposition(ports, Ports(metrics=inner), POOLS, "tiny"):
        found = [
            httpx.get(f"http://{host}:{shown}/metrics", timeout=60).status_code
            for host in ("127.0.0.1", "[::1]")
        ]
    assert found == [200, 200]


def test_both_texts_are_shown(inner: int) -> None:
    shown = free_ports(1)[0]
    with Exposition(Ports(metrics=shown), Ports(metrics=inner), POOLS, "tiny"):
        lines = scrape(shown).text.splitlines()
    assert lines[:5] == [
        "# HELP nv_inference_count Number of inferences performed",
        "# TYPE nv_inference_count counter",
        'nv_inference_count{triton_model="ensemble",version="1",model="tiny"} 7',
        'nv_cpu_utilization{model="tiny"} 0.5',
        'nv_odd{path="C:\\\\",text="a } b,model=\\"x\\"",triton_model="m",model="tiny"} 1 17',
    ]
    assert 'mm_server_pool_planned_bytes{pool="cuda",model="tiny"} 6.7108864e+07' in lines
    names = [
        name
        for family in text_string_to_metric_families("\n".join(lines))
        for sample in family.samples
        if (name := sample.labels.get("model"))
    ]
    assert set(names) == {"tiny"}


def test_a_dead_server_hides_nothing_of_ours() -> None:
    shown, inner = free_ports(2)
    with Exposition(Ports(metrics=shown), Ports(metrics=inner), POOLS, "tiny") as reported:
        reported.restarted()
        answer = scrape(shown)
        missing = scrape(shown, "/other")
    assert 'mm_server_restarts_total{model="tiny"} 1.0' in answer.text.splitlines()
    assert "nv_" not in answer.text
    assert (answer.status_code, missing.status_code) == (200, 404)


def test_a_full_pool_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    passed: list[str] = []
    shown, inner = free_ports(2)
    with Exposition(Ports(metrics=shown), Ports(metrics=inner), POOLS, "tiny") as reported:
        watch = reported.watch(passed.append)
        for line in ("I1121 10:00:00.0 77 server.cc:1] started", NO_PINNED, FULL):
            watch(line)
        lines = scrape(shown).text.splitlines()
        state = ServerState.from_json(scrape(shown, "/state").content)
    fallbacks = [line for line in lines if line.startswith("mm_server_pool_fallbacks_total")]
    assert fallbacks == [
        'mm_server_pool_fallbacks_total{pool="cuda",model="tiny"} 1.0',
        'mm_server_pool_fallbacks_total{pool="pinned",model="tiny"} 0.0',
    ]
    assert state.pools == [
        PoolState(pool="cuda", planned_bytes=67108864, full=1),
        PoolState(pool="pinned", planned_bytes=1024, full=0),
    ]
    assert passed[-1] == FULL
    assert "the cuda pool of 67108864 bytes is full" in caplog.text
    assert "spec.runtime.memoryPools.cuda" in caplog.text


def test_a_full_pinned_pool_is_another_one(caplog: pytest.LogCaptureFixture) -> None:
    """It has words, a number and a field of its own; how the GPU is shared is reported beside."""
    with Exposition(
        Ports(metrics=free_ports(1)[0]), Ports(metrics=free_ports(1)[0]), POOLS, "tiny"
    ) as reported:
        watch = reported.watch(lambda _line: None)
        watch(FULL_PINNED)
        watch(f"WARNING {NO_KERNELS}: RuntimeError: no compiler")
        reported.shares("time-slices", "no daemon")
        state = reported.state()
        reported.restarted()
        assert reported.state().kernel_problem == ""
    assert [(one.pool, one.full) for one in state.pools] == [("cuda", 0), ("pinned", 1)]
    assert (state.sharing_problem, state.kernel_problem) == (
        "no daemon",
        "RuntimeError: no compiler",
    )
    assert "spec.runtime.memoryPools.pinned" in caplog.text


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailedError, match=rf"metrics port {port}.*--metrics-port"):
            Exposition(Ports(metrics=port), Ports(metrics=free_ports(1)[0]), POOLS, "tiny")
