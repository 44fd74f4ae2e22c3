"""What every bench of the operator needs: a control plane, an operator process, many models.

The numbers come from /proc (memory and CPU) and from the operator's own request counter.
"""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from mm_devcluster.cluster import ClusterInfo, ClusterOptions, down, status, up
from mm_operator.cluster.client import Client, connect

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "crds" / "multimodalmodels.serving.multimodal.dev.yaml"
RESULTS = Path(__file__).parent / "results"
NAMESPACE = "bench"
WRITES = frozenset({"create", "update", "patch", "delete"})
_TICKS = os.sysconf("SC_CLK_TCK")
_REQUEST = re.compile(
    r'^mm_operator_api_requests_total\{code="(\w+)",resource="([\w/]+)",verb="(\w+)"\} (\S+)$',
    re.MULTILINE,
)


@contextmanager
def control_plane(name: str) -> Iterator[ClusterInfo]:
    """A control plane of its own with the CRD and the namespaces, taken down at the end."""
    try:
        cluster = up(ClusterOptions(name=name, control_plane_only=True, owner_pid=os.getpid()))
        kubectl(cluster, "apply", "-f", str(CRD))
        for namespace in (NAMESPACE, "multimodal-system"):
            kubectl(cluster, "create", "namespace", namespace)
        kubectl(cluster, "wait", "--for=condition=Established", f"crd/{CRD.stem}", "--timeout=30s")
        yield cluster
    finally:
        down(name)


def kubectl(cluster: ClusterInfo, *arguments: str) -> str:
    """Run kubectl as the cluster's admin."""
    command = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@asynccontextmanager
async def client_of(cluster: ClusterInfo) -> AsyncIterator[Client]:
    """A client for the bench itself."""
    client = Client(await connect(str(cluster.kubeconfig), None), timeout_seconds=60)
    try:
        yield client
    finally:
        await client.close()


class OperatorProcess:
    """One operator, as its image runs it, with a port for its metrics."""

    def __init__(self, cluster: ClusterInfo, log: Path, *arguments: str) -> None:
        self._log = log.open("w")
        self.log = log
        self._process = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "mm-operator"),
                *("run", "--runtime-image", "localhost/multimodal/runtime:bench", "--port", "0"),
                *("--kubeconfig", str(cluster.kubeconfig)),
                *arguments,
            ],
            stderr=self._log,
            start_new_session=True,
        )
        self.pid = self._process.pid
        _keep_its_share(self.pid)
        self.started = time.monotonic()
        self.port = self._find_port(log)
        self.serving = time.monotonic()
        self.peak_bytes = 0

    def _find_port(self, log: Path) -> int:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if found := re.search(r"metrics on port (\d+)", log.read_text()):
                return int(found[1])
            time.sleep(0.05)
        self._process.kill()
        raise TimeoutError(f"the operator did not start: {log.read_text()[-2000:]}")

    def metrics(self) -> str:
        """Return the text of /metrics."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def requests(self) -> dict[str, int]:
        """Return `verb resource` -> number of requests, watches and the Lease left out."""
        counts: dict[str, int] = {}
        for _, resource, verb, value in _REQUEST.findall(self.metrics()):
            if verb != "watch" and resource != "leases":
                name = f"{verb} {resource}"
                counts[name] = counts.get(name, 0) + int(float(value))
        return counts

    def errors(self) -> int:
        """Return how many reconciles failed."""
        found = re.search(r'reconcile_total\{result="error"\} (\S+)', self.metrics())
        return int(float(found[1])) if found else 0

    def reconciles(self) -> int:
        """Return how many reconciles ended, well or not."""
        counts = re.findall(
            r'^mm_operator_reconcile_total\{result="\w+"\} (\S+)', self.metrics(), re.MULTILINE
        )
        return sum(int(float(count)) for count in counts)

    def writes(self) -> int:
        """Return the number of writes, the Lease's renewals left out."""
        return sum(n for name, n in self.requests().items() if name.split()[0] in WRITES)

    def reads(self) -> int:
        """Return the number of reads, watches and the Lease left out."""
        return sum(n for name, n in self.requests().items() if name.split()[0] not in WRITES)

    def resident_bytes(self) -> int:
        """Return the resident set now, and remember the largest seen."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        self.peak_bytes = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]

    def cpu_seconds(self) -> float:
        """Return user and system time so far."""
        return cpu_seconds_of(self._process.pid)

    def ended(self) -> bool:
        """Return whether the process has ended by itself, as one does that lost the Lease."""
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal that does not end the process."""
        self._process.send_signal(number)

    def signalled(self, number: signal.Signals, *, limit_seconds: float) -> float | None:
        """Send a signal; return the seconds until the process ended, None when it did not."""
        started = time.monotonic()
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - started

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the process and wait for it."""
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5)
        self._log.close()


def _keep_its_share(pid: int) -> None:
    """Give an operator its share of the cores before the control plane, which runs on the same two.

    As a CPU request does. Without it the operator waited for a core twice as long as it ran, and
    the lag of its event loop (p99 0.5 s) was the scheduler's. Linux schedules by session.
    """
    with suppress(OSError):  # no autogroups in this kernel, or no right to
        Path(f"/proc/{pid}/autogroup").write_text("-19")


def cpu_seconds_of(pid: int | str) -> float:
    """Return user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_seconds_by_part(cluster: ClusterInfo, operator: OperatorProcess) -> dict[str, float]:
    """Return the CPU time so far of the control plane's parts, the operator and the bench."""
    parts = {part.name: part.pid for part in status(cluster.name).parts if part.pid is not None}
    times = {name: cpu_seconds_of(pid) for name, pid in parts.items()}
    return {**times, "operator": operator.cpu_seconds(), "bench": cpu_seconds_of("self")}


def model(index: int, *, claim: str = "checkpoints") -> dict[str, Any]:
    """Return a small model; each differs in its source's path."""
    text = (ROOT / "examples" / "tiny-llava.yaml").read_text()
    document: dict[str, Any] = yaml.safe_load(text)
    document["metadata"] = {"name": f"model-{index:04}", "namespace": NAMESPACE}
    source = {"claimName": claim, "path": f"checkpoint-{index:04}"}
    document["spec"]["model"]["source"]["persistentVolumeClaim"] = source
    return document


def machine() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    return {
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average_at_start": [round(value, 2) for value in os.getloadavg()],
    }


def write_result(name: str, result: dict[str, Any]) -> None:
    """Print a result and keep it beside the scripts."""
    text = json.dumps(result, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)
