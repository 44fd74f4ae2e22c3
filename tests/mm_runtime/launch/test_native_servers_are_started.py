"""Servers of TensorRT-LLM engines: one process a rank, adapters by their ids, the right image.

The processes themselves need NVIDIA's container; here is what they would be started with.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.backends import BACKENDS
from mm_runtime.base import child_process
from mm_runtime.errors import PermanentError, ServerFailedError
from mm_runtime.launch import tritonserver
from mm_runtime.launch.arguments import ServerOptions, server_argv, world_argv
from mm_runtime.launch.backends import Installation, copy_backends, find_installation
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.serve import serve
from mm_runtime.launch.tritonserver import link_adapters
from mm_runtime.settings import Ports
from support.native_engines import native_engine
from support.ports import free_ports
from support.trtllm_tools.install import install


@pytest.fixture
def container(tmp_path: Path) -> Path:
    root = tmp_path / "opt" / "tritonserver"
    for name in (
        "bin/tritonserver",
        "backends/python/libtriton_python.so",
        "backends/python/triton_python_backend_utils.py",
        "backends/python/triton_python_backend_stub",
        "backends/tensorrtllm/libtriton_tensorrtllm.so",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


OPTIONS = ServerOptions(
    repository=Path("/var/lib/multimodal/repository"),
    backends=Path("/var/lib/multimodal/backends"),
    ports=Ports(),
    pools=MemoryPools(cuda_bytes=300_000_000, pinned_bytes=1 << 20, shm_bytes=1 << 20),
    exit_seconds=5,
    secret="closed",
)


def ranks_of(argv: tuple[str, ...]) -> list[list[str]]:
    text = " ".join(argv).removeprefix("mpirun --allow-run-as-root --oversubscribe ")
    return [part.removeprefix("-n 1 ").split() for part in text.split(" : ")]


def test_one_gpu_needs_no_mpirun(container: Path) -> None:
    installation = find_installation(container)
    assert server_argv(installation, OPTIONS) == world_argv(installation, OPTIONS, 1)


def test_a_server_for_each_rank(container: Path) -> None:
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 2))
    first, second = commands
    assert first == list(server_argv(find_installation(container), OPTIONS))
    alone = {"--model-control-mode=explicit", "--load-model=tensorrt_llm"}
    assert alone == set(second) - {word for word in second if word not in alone}
    assert alone.isdisjoint(first)


def test_ranks_do_not_share_ports(container: Path) -> None:
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 4))
    found = [
        word.partition("=")[2]
        for command in commands
        for word in command
        if word.startswith(("--http-port=", "--grpc-port=", "--metrics-port="))
    ]
    assert [len(found), len(set(found))] == [12, 12]


def test_the_pool_is_reserved_once(container: Path) -> None:
    """Only rank 0 has encoder outputs; a pool for each rank would take GPU 0's memory again."""
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 2))
    pools = [[word for word in one if "cuda-memory-pool" in word] for one in commands]
    assert pools == [["--cuda-memory-pool-byte-size=0:300000000"], []]


def test_ranks_do_not_share_memory_regions(container: Path) -> None:
    """Each has a prefix in /dev/shm, and all of them begin with the pod's, which is cleaned up."""
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 2))
    key = "--backend-config=python,shm-region-prefix-name="
    found = [word.removeprefix(key) for one in commands for word in one if word.startswith(key)]
    assert [OPTIONS.shm_prefix, f"{OPTIONS.shm_prefix}1_"] == found


def test_the_containers_backend_is_found(container: Path, tmp_path: Path) -> None:
    installation = find_installation(container)
    for _ in range(2):
        copy_backends(installation, tmp_path / "backends")
    native = tmp_path / "backends" / "tensorrtllm"
    assert (container / "backends" / "tensorrtllm").resolve() == native.resolve()
    assert not (tmp_path / "backends" / "python").is_symlink()


def test_adapters_lie_by_their_ids(tmp_path: Path) -> None:
    built = tmp_path / "lora"
    reported = [
        {"name": "", "uid": -1},
        {"name": "red", "uid": 7, "engines": ["llm"]},
        {"name": "both", "uid": 9, "engines": ["decoder", "encoder"]},
    ]
    for name in ("red/llm", "both/decoder", "both/encoder"):
        (built / name).mkdir(parents=True)
    (built / "adapters.json").write_text(json.dumps(reported))
    (tmp_path / "by-id" / "3").mkdir(parents=True)  # of the engine before
    assert link_adapters(built, tmp_path / "by-id") == len(reported) - 1
    found = {one.name: one.resolve() for one in (tmp_path / "by-id").iterdir()}
    assert {"7": built / "red" / "llm", "9": built / "both" / "decoder"} == found


def test_no_adapters_no_folder(tmp_path: Path) -> None:
    (tmp_path / "by-id" / "3").mkdir(parents=True)
    assert link_adapters(tmp_path / "lora", tmp_path / "by-id") == 0
    assert not (tmp_path / "by-id").exists()


@pytest.mark.triton
def test_an_image_without_the_backend_is_named(tmp_path: Path) -> None:
    """The wheel's server cannot run TensorRT-LLM engines: said before anything is started."""
    manifest, serving = native_engine("llava")
    path = tmp_path / "manifest.json"
    path.write_text(manifest.to_json())
    options = ServeOptions(
        manifest=path,
        serving_path=tmp_path / "serving.json",
        serving=serving,
        repository=tmp_path / "repository",
        ports=Ports(),
    )
    with pytest.raises(PermanentError, match=r"no TensorRT-LLM backend.*spec\.runtime\.image"):
        serve(options, BACKENDS[options.serving.backend].prepare_server)
    assert not (tmp_path / "repository").exists()


RANKS = 2
DEADLINE_SECONDS = 60.0


@pytest.fixture(name="pids")
def folder_of_pids(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    for rank in folder.iterdir():
        with suppress(ProcessLookupError):
            os.killpg(int(rank.read_text()), signal.SIGKILL)


@pytest.fixture
def options(tmp_path: Path, pids: Path, monkeypatch: pytest.MonkeyPatch) -> ServeOptions:
    tools = install(tmp_path / "tools", "0.20.0")
    backends = tools.root / "backends"
    for name in ("python/libtriton_python.so", "python/triton_python_backend_utils.py"):
        (backends / name).parent.mkdir(parents=True, exist_ok=True)
        (backends / name).touch()
    (backends / "python" / "triton_python_backend_stub").touch()
    (backends / "tensorrtllm").mkdir()

    def found() -> Installation:
        return find_installation(tools.root)

    monkeypatch.setattr(tritonserver, "find_installation", found)
    monkeypatch.setenv("PATH", f"{tools.programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MM_RECORDED_PIDS", str(pids))
    engine, serving = native_engine("llava", {"parallelism": {"tensor": RANKS}})
    manifest = tmp_path / "manifest.json"
    manifest.write_text(engine.to_json())
    http, grpc, metrics = free_ports(3)
    return ServeOptions(
        manifest=manifest,
        serving_path=tmp_path / "serving.json",
        serving=serving,
        repository=tmp_path / "own" / "repository",
        ports=Ports(http=http, grpc=grpc, metrics=metrics),
        gateway_port=0,
    )


def process_of(pids: Path, rank: int) -> int:
    return int((pids / str(rank)).read_text())


def launcher_of(pids: Path) -> int:
    stat = Path(f"/proc/{process_of(pids, 0)}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


class Killer(threading.Thread):
    """Kills a process once the supervisor has reported that the server is ready.

    Past its deadline it ends the supervisor, so that a test fails and does not hang.
    """

    def __init__(self, pids: Path, log: pytest.LogCaptureFixture, victim: str) -> None:
        super().__init__()
        self._pids = pids
        self._log = log
        self._victim = victim
        self.over = threading.Event()

    def run(self) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline and not self.over.wait(0.05):
            if "ready after" in self._log.text and len(list(self._pids.iterdir())) == RANKS:
                launcher = self._victim == "launcher"
                pid = launcher_of(self._pids) if launcher else process_of(self._pids, RANKS - 1)
                os.kill(pid, signal.SIGKILL)
                break
        if not self.over.wait(max(0.0, deadline - time.monotonic())):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("victim", ["rank", "launcher"])
def test_a_death_ends_the_container(
    options: ServeOptions,
    pids: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
) -> None:
    """The command fails and says why, nothing is started again: Kubernetes restarts the pod."""
    # Ranks that are left hold the pipe of their output open.
    monkeypatch.setattr(child_process, "READER_SECONDS", 0.1)
    caplog.set_level("INFO")
    killer = Killer(pids, caplog, victim)
    killer.start()
    try:
        with pytest.raises(ServerFailedError, match="the container ends") as failed:
            serve(options, BACKENDS[options.serving.backend].prepare_server)
    finally:
        killer.over.set()
        killer.join()

    assert str(failed.value).startswith("tritonserver ended unexpectedly with exit code 137;")
    assert caplog.text.count("ready after") == 1
    assert "started again" not in caplog.text
    if victim == "launcher":  # which is why: only the container's end ends this one
        assert Path(f"/proc/{process_of(pids, 0)}").exists()
