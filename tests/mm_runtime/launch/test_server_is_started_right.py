"""Command line, environment and files of tritonserver: each trap once."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.launch.arguments import ServerOptions, server_argv, server_environment
from mm_runtime.launch.backends import Installation, copy_backends, find_installation
from mm_runtime.launch.health import InFlight, parse_in_flight
from mm_runtime.launch.shared_memory import remove_regions
from mm_runtime.settings import Ports
from support.cases import cases

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
    """What the plan says reaches the command line."""
    assert argument in server_argv(INSTALLED, options())


@cases(
    "ports expected",
    {
        "loopback": (Ports("::1", 1, 2, 3), ["ipv6:::1", "[::1]"]),
        "everywhere": (Ports("::", 1, 2, 3), ["ipv6:::", "[::]"]),
    },
)
def test_ipv6_is_written_as_each_library_reads_it(ports: Ports, expected: list[str]) -> None:
    """Of HTTP behind a word, of gRPC in brackets."""
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
    """One server has one prefix for ever, two servers of a machine have two."""
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
    """The wheel in this environment has the server, and its backend can be copied and run."""
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
    """Queued, taken up and generating requests come from the metrics; limits do not count."""
    assert expected == parse_in_flight(text.splitlines())


def test_only_own_regions_are_removed(tmp_path: Path) -> None:
    """A killed server's regions go, another server's stay."""
    for name in ("mmaaaa_1", "mmaaaa_2", "mmbbbb_1", "other"):
        (tmp_path / name).touch()
    assert remove_regions("mmaaaa_", tmp_path) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"mmbbbb_1", "other"}
