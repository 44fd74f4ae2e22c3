"""The operator installed on a real cluster by Helm, as `make demo` does it, and models to try it.

The images are built from the working tree and loaded into the node; the first run of a machine
takes minutes for that, later ones a second.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mm_devcluster import packages
from mm_devcluster.cluster import ClusterInfo
from mm_devcluster.demo import installation, preparation, settings
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.demo.walk import NOT_THERE, Condition, conditions_of
from mm_devcluster.images.catalogue import OPERATOR, RUNTIME
from support.clusters import apply, kubectl, namespace, read
from support.outside import kill_container

UPLOAD_TIMEOUT = 180.0
READY_TIMEOUT = 240.0  # seconds; measured about 35 alone, more when the machine is shared
POLL_SECONDS = 0.5
CLAIM = "checkpoints"
ROUTER = f"{settings.RELEASE}-router"
RESOURCES = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}}
"""Small requests: the node has two cores, and a rolling update needs room for two pods."""


@dataclass(frozen=True)
class Installed:
    """A cluster on which the operator runs."""

    cluster: ClusterInfo
    session: Session

    @property
    def target(self) -> Target:
        return self.session.target


@dataclass(frozen=True)
class Space:
    """A namespace with a claim full of checkpoints, and what a user does there."""

    installed: Installed
    name: str

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        everything = ("--namespace", self.name, *arguments)
        return kubectl(self.installed.cluster, *everything, stdin=stdin, check=check)

    def get(self, *arguments: str) -> dict[str, Any]:
        return read(self.installed.cluster, "--namespace", self.name, *arguments)

    def names(self, kind: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.get(kind).get("items", []))

    def apply(self, *documents: dict[str, Any]) -> None:
        apply(self.installed.cluster, *documents)

    def upload(self, directory: Path, path: str) -> None:
        """Copy a directory into the claim, with mmctl as a user would."""
        command = [str(Path(sys.executable).parent / "mmctl"), "upload", str(directory)]
        command += ["--claim", CLAIM, "--path", path, "--namespace", self.name]
        command += ["--image", self.installed.session.image_reference("operator")]
        subprocess.run(
            command,
            env=self.installed.target.environment,
            check=True,
            timeout=UPLOAD_TIMEOUT,
            capture_output=True,
        )

    def model(self, name: str, path: str, **parts: dict[str, Any]) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "model": {"source": {"persistentVolumeClaim": {"claimName": CLAIM, "path": path}}},
            "engine": {"backend": "Reference", "maxBatchSize": 4, "maxImagesPerRequest": 2},
            "build": {"store": {"size": "1Gi"}, "resources": RESOURCES},
            "runtime": {"resources": RESOURCES},
            "gateway": {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
        }
        for part, values in parts.items():
            spec[part] = {**spec.get(part, {}), **values}
        return {
            "apiVersion": "serving.multimodal.dev/v1alpha1",
            "kind": "MultimodalModel",
            "metadata": {"name": name, "namespace": self.name},
            "spec": spec,
        }

    def read(self, model: str) -> dict[str, Any]:
        return self.get("mmm", model)

    def condition(self, model: str, kind: str) -> Condition:
        return conditions_of(self.read(model)).get(kind, NOT_THERE)

    def wait(
        self,
        model: str,
        kind: str,
        reached: Callable[[Condition], bool],
        timeout: float = READY_TIMEOUT,
    ) -> Condition:
        """Wait until a condition is as wanted and return it."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.read(model)
            conditions = conditions_of(found)
            condition = conditions.get(kind, NOT_THERE)
            if reached(condition):
                return condition
            if time.monotonic() > deadline:
                said = "\n".join(f"{name}: {value}" for name, value in conditions.items())
                said = said or self._why_silent(found, model)
                raise AssertionError(f"{kind} of {model} after {timeout:.0f} s:\n{said}")
            time.sleep(POLL_SECONDS)

    def _why_silent(self, found: dict[str, Any], model: str) -> str:
        """Return the status as it is, the operator's containers, and what it logged of a model."""
        generation = found.get("metadata", {}).get("generation", "none: no such object")
        pods = operator_pods(self.installed)
        named = [("-n", settings.SYSTEM_NAMESPACE, pod["metadata"]["name"]) for pod in pods]
        logs = [kubectl(self.installed.cluster, "logs", *one, check=False) for one in named]
        lines = [line for log in logs for line in log.splitlines() if model in line]
        ends = [str(pod["status"].get("containerStatuses")) for pod in pods]
        return "\n".join((f"generation {generation}: {found.get('status')}", *ends, *lines[-20:]))

    def wait_ready(self, model: str, timeout: float = READY_TIMEOUT) -> Condition:
        return self.wait(model, "Ready", lambda condition: condition.holds, timeout)

    def wait_reason(self, model: str, kind: str, *reasons: str) -> Condition:
        return self.wait(model, kind, lambda condition: condition.reason in reasons)


@pytest.fixture(scope="session")
def installed(node_cluster: ClusterInfo) -> Installed:
    """The operator, from the working tree, on the entire development cluster."""
    return install(node_cluster)


def install(cluster: ClusterInfo) -> Installed:
    packages.install((*packages.NODE_PACKAGES, *packages.IMAGE_PACKAGES))
    session = Session(settings.Options(cluster=cluster.name))
    session.found_target = Target(cluster.name, cluster.kubeconfig, cluster.kubectl)
    preparation.make_base(session, _ignore)
    for recipe in (OPERATOR, RUNTIME):
        preparation.make_image(session, recipe, _ignore)
        preparation.load_image(session, recipe, _ignore)
    installation.install_operator(session, _ignore)
    return Installed(cluster, session)


@contextmanager
def with_router(installed: Installed, changes: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Let the chart run its router; yield the address of the OpenAI API of every model."""
    where = ("-n", settings.SYSTEM_NAMESPACE)
    resources = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    router = {"enabled": True, "resources": resources}
    installation.install_operator(installed.session, _ignore, {"router": router, **(changes or {})})
    try:
        status = ("rollout", "status", f"deployment/{ROUTER}", *where, "--timeout=120s")
        kubectl(installed.cluster, *status)
        service = read(installed.cluster, "service", ROUTER, *where)
        yield f"http://{service['spec']['clusterIP']}/v1"
    finally:
        installation.install_operator(installed.session, _ignore)


@contextmanager
def model_space(installed: Installed, name: str) -> Iterator[Space]:
    """Make a namespace that enforces `restricted` with an empty claim; delete it at the end."""
    with namespace(installed.cluster, name):
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        apply(installed.cluster, claim)
        yield Space(installed, name)


def kill_every(installed: Installed, component: str) -> None:
    """Kill a component of the chart, each replica, as the kernel would."""
    marks = f"app.kubernetes.io/component={component}"
    pods = read(installed.cluster, "pods", "-n", settings.SYSTEM_NAMESPACE, "-l", marks)["items"]
    assert pods
    for pod in pods:
        kill_container(pod, f"mm-{component}")


def operator_pods(installed: Installed) -> list[dict[str, Any]]:
    return list(read(installed.cluster, "pods", "-n", settings.SYSTEM_NAMESPACE)["items"])


def _ignore(_detail: str) -> None:
    pass
