"""One rank's death is the container's: what is left may hold its GPU, and nothing starts beside it.

mpirun and the ranks are recorded (`tests/support/trtllm_tools`): the real backend needs NVIDIA's
container. Supervisor, command line, groups of processes and signals are the real ones.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mm_runtime.backends import BACKENDS
from mm_runtime.base import child_process
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch import tritonserver
from mm_runtime.launch.backends import Installation, find_installation
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.serve import serve
from mm_runtime.settings import Ports
from support.native_engines import native_engine
from support.ports import free_ports
from support.trtllm_tools.install import install

RANKS = 2
DEADLINE_SECONDS = 60.0


@pytest.fixture(name="pids")
def folder_of_pids(tmp_path: Path) -> Iterator[Path]:
    """Where each rank writes its process id; none of them is left behind."""
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    for rank in folder.iterdir():
        with suppress(ProcessLookupError):
            os.killpg(int(rank.read_text()), signal.SIGKILL)


@pytest.fixture
def options(tmp_path: Path, pids: Path, monkeypatch: pytest.MonkeyPatch) -> ServeOptions:
    """An engine of two ranks, in what `mm-runtime serve` takes for NVIDIA's container."""
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
        """Wait, kill, and see that it helps."""
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
