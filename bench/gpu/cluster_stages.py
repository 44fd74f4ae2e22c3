"""Stages of the main job in a development cluster, and what the driver counts meanwhile."""

import argparse
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from cluster_models import WAIT_SECONDS, WHERE, holds, model_of, on_gpu_by_pod, pods, until
from machine_images import make_images
from sites import process_name

from mm_devcluster import cluster
from mm_devcluster.demo import evidence, installation, preparation, teardown
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.catalogue import OPERATOR, RUNTIME
from mm_devcluster.paths import state_dir

READ_SECONDS = 0.25


class Seconds:
    """How long each stage took; a prefix is printed before it."""

    def __init__(self, prefix: str = "") -> None:
        self.taken: dict[str, float] = {}
        self._prefix = prefix

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Take the time of a block; print it."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.taken[stage] = round(time.monotonic() - began, 1)
            print(f"{self.taken[stage]:7.1f} s  {self._prefix}{stage}", flush=True)


class Driver:
    """What nvidia-smi counts for each container, sampled until stopped."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stop = threading.Event()
        self._names: dict[str, str] = {}
        self.peak: dict[str, int] = {}
        """Pod and container -> bytes of all its processes at one time."""

        self.processes: dict[str, dict[str, int]] = {}
        """The same -> process -> bytes."""

        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stop.wait(READ_SECONDS):
            with suppress(OSError, subprocess.SubprocessError):
                now: Counter[str] = Counter()
                for pid, (_, own, used) in on_gpu_by_pod().items():
                    with suppress(psutil.Error, DevClusterError):  # it has ended
                        container, process = self._name(own), process_name(pid)
                        now[container] += used
                        peaks = self.processes.setdefault(container, {})
                        peaks[process] = max(used, peaks.get(process, 0))
                for name, used in now.items():
                    self.peak[name] = max(used, self.peak.get(name, 0))

    def _name(self, own: str) -> str:
        if own not in self._names:
            for pod in pods(self._target, "--all-namespaces"):
                status = pod["status"]
                # A server is a sidecar, which Kubernetes lists among the init containers.
                for one in (
                    *status.get("initContainerStatuses", ()),
                    *status.get("containerStatuses", ()),
                ):
                    container = one.get("containerID", "").rpartition("/")[2]
                    self._names[container] = f"{pod['metadata']['name']} {one['name']}"
        return self._names.get(own, own)

    def stop(self) -> None:
        """End the reading."""
        self._stop.set()
        self._thread.join(30)


def start(session: Session, seconds: Seconds, gpu: str | None) -> Target:
    """Start the cluster and return it."""
    with seconds.of("cluster"):
        found = cluster.up(
            cluster.ClusterOptions(name=session.options.cluster, gpu=gpu),
            lambda stage, detail: print("         ", stage, detail, flush=True),
        )
    session.found_target = Target(found.name, found.kubeconfig, found.kubectl)
    return session.found_target


def node_labels(target: Target) -> dict[str, str]:
    """Return what the node says of its GPUs."""
    labels = target.document("nodes")["items"][0]["metadata"]["labels"]
    return {name: value for name, value in labels.items() if name.startswith("nvidia.com/")}


def images(session: Session, options: argparse.Namespace) -> dict[str, Any]:
    """Make both images and load them into the node; return what is to be recorded of them."""

    def report(line: str) -> None:
        print("         ", line, flush=True)

    record: dict[str, Any] = {}
    if options.images == "own":
        preparation.make_base(session, report)
        for recipe in (OPERATOR, RUNTIME):
            preparation.make_image(session, recipe, report)
    else:
        of_file = options.images == "dockerfile"
        made, record = make_images(options.pinned, options.tensorrt, dockerfile=of_file)
        session.images |= made
    for recipe in (OPERATOR, RUNTIME):
        preparation.load_image(session, recipe, report)
    return record


def install(session: Session, seconds: Seconds) -> None:
    """Install the chart."""
    with seconds.of("operator"):
        installation.install_operator(session, lambda _: None)


BUILT = ("Planned", "EngineBuilt")
PLANNED_SECONDS = 120
"""A plan needs no GPU: an image that does not run shows here."""


def follow(
    target: Target,
    seconds: Seconds,
    name: str,
    timeout: float,
    conditions: Sequence[str] = (*BUILT, "Ready"),
) -> None:
    """Take the time until each condition of a model holds."""
    for condition in conditions:
        most = min(timeout, PLANNED_SECONDS) if condition == "Planned" else timeout
        with seconds.of(condition):
            until(f"{condition} of {name}", lambda: holds(target, name, condition), most)  # noqa: B023


def planned(target: Target, model: str) -> dict[str, Any]:
    """Return what the operator planned for one replica, and from which GPU."""
    plan = model_of(target, model)["status"]["plan"]
    names = ("gpu", "memory", "gpuMemory", "encoderMemory", "maxConcurrency")
    return {name: plan[name] for name in names if name in plan}


def uninstalled(target: Target) -> int:
    """Delete the models and the operator; return the processes left on the GPU between the two."""
    target.call("delete", "multimodalmodel", "--all", *WHERE, "--timeout=120s", timeout=150)
    until("no pod of a model", lambda: not pods(target, *WHERE))
    left = len(on_gpu_by_pod())
    teardown.uninstall(target)
    return left


def evidence_of(session: Session, models: Sequence[str]) -> str:
    """Return what the cluster knows of a failure."""
    return "\n".join(evidence.gather(session.target, model) for model in models)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every bench in a cluster takes."""
    parser.add_argument("--name", default="gpu", help="of the cluster")
    parser.add_argument("--images", choices=("own", "machine", "dockerfile"), default="own")
    parser.add_argument("--pinned", type=Path, help="packages that go before the machine's own")
    parser.add_argument("--tensorrt", type=Path, help="folder with lib and site of TensorRT")
    parser.add_argument("--checkpoints", type=Path, default=state_dir() / "checkpoints")
    parser.add_argument("--evaluation", choices=("Auto", "Off"), default="Off")
    parser.add_argument("--timeout", type=float, default=WAIT_SECONDS, help="of each condition")
