"""The operator as a process of its own, against a real API server: it can be stopped and killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from mm_devcluster.cluster import ClusterInfo
from support.memory_group import MemoryGroup
from support.tied import tied

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_WRITE = re.compile(
    r'^mm_operator_api_requests_total\{code="\w+",resource="([\w/]+)",'
    r'verb="(?:create|update|patch|delete)"\} (\S+)$',
    re.MULTILINE,
)


class OperatorProcess:
    """One running `mm-operator run`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.port = self._port()

    def metrics(self) -> str:
        return self.get("/metrics")

    def get(self, path: str) -> str:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except HTTPError as refusal:
            with refusal:
                return refusal.read().decode()

    def writes(self) -> int:
        return sum(
            int(float(n)) for resource, n in _WRITE.findall(self.metrics()) if resource != "leases"
        )

    def leads(self) -> bool:
        return "\nmm_operator_leader 1.0" in self.metrics()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=_STOP_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=_STOP_SECONDS)

    def _port(self) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if found := re.search(r"metrics on port (\d+)", self.log.read_text()):
                return int(found[1])
            time.sleep(0.05)
        raise AssertionError(f"the operator did not start:\n{self.log.read_text()[-3000:]}")


@contextmanager
def running_operator(
    cluster: ClusterInfo,
    folder: Path,
    *namespaces: str,
    lease: str = "multimodal-operator",
    watch_nodes: bool = False,
    arguments: tuple[str, ...] = (),
    group: MemoryGroup | None = None,
) -> Iterator[OperatorProcess]:
    log = folder / f"operator-{len(list(folder.glob('operator-*.log')))}.log"
    command = [str(Path(sys.executable).parent / "mm-operator"), "run", "--port=0"]
    command += ["--runtime-image=localhost/multimodal/runtime:test"]
    command += [f"--lease-namespace={namespaces[0]}", f"--lease-name={lease}"]
    command += [f"--namespace={name}" for name in namespaces]
    command += ["--watch-nodes"] if watch_nodes else []
    command += [f"--kubeconfig={cluster.kubeconfig}", *arguments]
    # The client library writes certificates of the kubeconfig into files, which one that is killed
    # leaves.
    environment = {**os.environ, "KUBECONFIG": "", "TMPDIR": str(folder)}
    with log.open("wb") as stream:
        process = subprocess.Popen(tied(command), stdout=stream, stderr=stream, env=environment)
    try:
        if group is not None:
            group.add(process.pid)
        yield OperatorProcess(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=_STOP_SECONDS)
