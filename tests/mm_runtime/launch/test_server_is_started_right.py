"""Command line, environment and files of tritonserver: each trap once."""

import os
import resource
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.base.child_process import ChildProcess
from mm_runtime.launch import health
from mm_runtime.launch.arguments import ServerOptions, server_argv, server_environment
from mm_runtime.launch.backends import Installation, copy_backends, find_installation
from mm_runtime.launch.health import InFlight, State, parse_in_flight
from mm_runtime.launch.pod_address import one_family
from mm_runtime.launch.server import report_locked_memory
from mm_runtime.launch.tritonserver import remove_regions
from mm_runtime.settings import Ports
from support.cases import cases
from support.eventually import eventually
from support.ports import free_ports

INSTALLED = Installation(
    server=Path("/triton/bin/tritonserver"),
    backend=Path("/triton/backends/python"),
    stub=Path("/triton/stubs/3.11/triton_python_backend_stub"),
    caches=Path("/triton/caches"),
    libraries=Path("/venv/nvidia_pytriton.libs"),
    python_libraries=Path("/usr/lib/x86_64-linux-gnu"),
    python_bin=Path("/venv/bin"),
)


CLOSED = "model-repository,shared-memory,trace,logging,statistics"


def options(
    repository: str = "/var/lib/multimodal/repository", encoder_key: str = ""
) -> ServerOptions:
    return ServerOptions(
        repository=Path(repository),
        backends=Path("/var/lib/multimodal/backends"),
        ports=Ports("127.0.0.1", 8000, 8001, 8002, grpc_address="0.0.0.0"),  # noqa: S104 (an encoder's)
        pools=MemoryPools(cuda_bytes=300_000_000, pinned_bytes=1 << 20, shm_bytes=1 << 20),
        exit_seconds=5,
        secret="closed",
        encoder_key=encoder_key,
    )


@pytest.mark.parametrize(
    "argument",
    [
        "--model-repository=/var/lib/multimodal/repository",
        "--backend-directory=/var/lib/multimodal/backends",
        "--http-address=127.0.0.1",
        "--grpc-address=0.0.0.0",
        f"--http-restricted-api={CLOSED}:mm-closed=closed",
        f"--grpc-restricted-protocol={CLOSED}:mm-closed=closed",
        "--grpc-port=8001",
        "--metrics-port=8002",
        "--cuda-memory-pool-byte-size=0:300000000",
        "--pinned-memory-pool-byte-size=1048576",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=5",
    ],
)
def test_argument(argument: str) -> None:
    assert argument in server_argv(INSTALLED, options())


@cases(
    "ports expected",
    {
        "loopback": (Ports("::1", 1, 2, 3), ["ipv6:::1", "[::1]"]),
        "everywhere": (Ports("::", 1, 2, 3), ["ipv6:::", "[::]"]),
    },
)
def test_ipv6_is_written_as_each_library_reads_it(ports: Ports, expected: list[str]) -> None:
    argv = server_argv(INSTALLED, replace(options(), ports=ports))
    assert argv[argv.index(f"--http-address={expected[0]}") + 2] == f"--grpc-address={expected[1]}"


def test_encoders_are_queried_with_a_key() -> None:
    """Inference of an encoder that has a key needs it; a server's never does."""
    argument = "--grpc-restricted-protocol=inference:mm-encoder=k"
    assert argument in server_argv(INSTALLED, options(encoder_key="k"))
    assert not any("inference:" in word for word in server_argv(INSTALLED, options()))


def test_libraries_and_programs_come_first() -> None:
    """The copied stub finds the wheel's libraries, the right libpython and the venv's packages."""
    inherited = {"LD_LIBRARY_PATH": "/cuda/lib", "PATH": "/usr/bin", "OTHER": "1"}
    environment = server_environment(INSTALLED, inherited)
    libraries = "/venv/nvidia_pytriton.libs:/usr/lib/x86_64-linux-gnu:/cuda/lib"
    found = {name: environment[name] for name in ("LD_LIBRARY_PATH", "PATH", "OTHER")}
    assert {"LD_LIBRARY_PATH": libraries, "PATH": "/venv/bin:/usr/bin", "OTHER": "1"} == found


def test_shared_memory_is_distinguished() -> None:
    assert options().shm_prefix == options().shm_prefix
    assert options("/a").shm_prefix != options("/b").shm_prefix
    argument = f"--backend-config=python,shm-region-prefix-name={options().shm_prefix}"
    assert argument in server_argv(INSTALLED, options())


def test_models_run_in_the_interpreter_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an image with two environments the stub finds torch: its interpreter is first on PATH."""
    server = tmp_path / "bin" / "tritonserver"
    server.parent.mkdir()
    server.touch()
    monkeypatch.setenv("MM_ENGINE_PYTHON", "/opt/venv-tritonserver/bin/python3")

    environment = server_environment(find_installation(tmp_path), {"PATH": "/opt/ours/bin"})

    assert environment["PATH"] == "/opt/venv-tritonserver/bin:/opt/ours/bin"


@pytest.mark.triton
def test_installed_server_is_complete(tmp_path: Path) -> None:
    installation = find_installation()
    copy_backends(installation, tmp_path)
    copy_backends(installation, tmp_path)  # again, over the first
    names = {path.name for path in (tmp_path / "python").iterdir()}
    assert os.access(installation.server, os.X_OK)
    assert names == {
        "libtriton_python.so",
        "triton_python_backend_utils.py",
        "triton_python_backend_stub",
    }
    assert os.access(tmp_path / "python" / "triton_python_backend_stub", os.X_OK)


@cases(
    "text expected",
    {
        "no-metrics": ("", InFlight(0, 0)),
        "queued": (
            (
                'nv_inference_pending_request_count{model="preprocessing",version="1"} 2\n'
                'nv_inference_pending_request_count{model="ensemble",version="1"} 1\n'
            ),
            InFlight(3, 0),
        ),
        "generating": (
            (
                'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active"} 4\n'
                'nv_trt_llm_request_metrics{request_type="waiting"} 3\n'
                'nv_trt_llm_request_metrics{request_type="max"} 8\n'
            ),
            InFlight(0, 4),
        ),
        "in-hand": (
            (
                'mm_server_executing_requests{stage="preprocessing"} 2\n'
                'mm_server_executing_requests{stage="encoding"} 3\n'
            ),
            InFlight(0, 0, 5),
        ),
        "others": ("# HELP nv_trt_llm_request_metrics x\nnonsense\nother 7\n", InFlight(0, 0)),
    },
)
def test_requests_in_flight_are_counted(text: str, expected: InFlight) -> None:
    assert expected == parse_in_flight(text.splitlines())


def test_only_own_regions_are_removed(tmp_path: Path) -> None:
    for name in ("mmaaaa_1", "mmaaaa_2", "mmbbbb_1", "other"):
        (tmp_path / name).touch()
    assert remove_regions("mmaaaa_", tmp_path) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"mmbbbb_1", "other"}


POOLS = MemoryPools(cuda_bytes=0, pinned_bytes=1 << 20, shm_bytes=1 << 20)
V4, V6 = "0.0.0.0", "::"  # noqa: S104
KUBELETS = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
"""


@cases(
    "address hosts expected",
    {
        "ipv4": (V4, f"{KUBELETS}10.0.0.7\tllava-1\n", V4),
        "ipv6": (V4, f"{KUBELETS}fd00::7\tllava-1\n", V6),
        "ipv6-first": (V4, f"{KUBELETS}fd00::7\tllava-1\n10.0.0.7\tllava-1\n", V6),
        "ipv4-first": (V4, f"{KUBELETS}10.0.0.7\tllava-1\nfd00::7\tllava-1\n", V4),
        "subdomain": (V4, f"{KUBELETS}fd00::7\tllava-1.pods.svc\tllava-1\n", V6),
        "everywhere-of-ipv6": (V6, f"{KUBELETS}10.0.0.7\tllava-1\n", V4),
        "another-host": (V4, "fd00::7 other llava-12 # llava-1\n", V4),
        "loopback-alone": (V4, "::1 llava-1\n127.0.1.1 llava-1\n", V4),
        "no-address": (V4, "x llava-1\n\n", V4),
        "one-address": ("127.0.0.1", f"{KUBELETS}fd00::7\tllava-1\n", "127.0.0.1"),
    },
)
def test_everywhere_is_the_primary_family(address: str, hosts: str, expected: str) -> None:
    """As the kubelet writes the file: the primary address comes first."""
    assert one_family(address, hosts, "llava-1") == expected


def listens_options(repository: Path, ports: Ports) -> ServerOptions:
    return ServerOptions(
        repository=repository,
        backends=repository / "backends",
        ports=ports,
        pools=POOLS,
        exit_seconds=1,
        secret="closed",
    )


def opened(port: int) -> set[str]:
    found = set()
    for address in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((address, port), timeout=10).close()
        except OSError:
            continue
        found.add(address)
    return found


@pytest.mark.triton
@cases("address http", {"ipv4": (V4, {"127.0.0.1"}), "ipv6": (V6, {"::1"})})
def test_a_real_server_answers(tmp_path: Path, address: str, http: set[str]) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    installation = find_installation()
    ports = Ports(address, *free_ports(3), grpc_address=V4)
    argv = server_argv(installation, listens_options(tmp_path, ports))
    server = ChildProcess(argv, server_environment(installation, os.environ), lambda _line: None)
    try:
        eventually(lambda: health.probe(ports) is State.READY, seconds=60)
        assert (opened(ports.http), opened(ports.grpc)) == (http, {"127.0.0.1", "::1"})
    finally:
        server.stop(10)


@cases(
    "ranks limit reported",
    {
        "ranks": (2, 64 << 10, True),
        "unlimited": (2, resource.RLIM_INFINITY, False),
        "alone": (1, 64 << 10, False),
    },
)
def test_only_ranks_with_a_limit_are_reported(
    caplog: pytest.LogCaptureFixture, ranks: int, limit: int, *, reported: bool
) -> None:
    report_locked_memory(ranks, limit)
    assert ("may lock 64 KiB" in caplog.text and "LimitMEMLOCK" in caplog.text) == reported


def test_the_limit_is_the_processes_own(caplog: pytest.LogCaptureFixture) -> None:
    own, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    report_locked_memory(2)
    assert bool(caplog.messages) == (own != resource.RLIM_INFINITY)
