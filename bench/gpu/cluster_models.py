"""Models of a development cluster with a GPU: what they are, where they answer, what they use."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_record import processes_on_gpu

from mm_api.hosts import bracketed
from mm_devcluster.demo import settings, walk
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError

NAMESPACE = settings.DEMO_NAMESPACE
WHERE = ("--namespace", NAMESPACE)
WAIT_SECONDS = 240.0


def pods(target: Target, *arguments: str) -> list[dict[str, Any]]:
    """Return pods."""
    found: list[dict[str, Any]] = target.document("pods", *arguments).get("items", [])
    return found


def serving_pods(target: Target, model: str) -> list[dict[str, Any]]:
    """Return the pods that serve a model, the oldest first."""
    selector = f"app.kubernetes.io/component=server,app.kubernetes.io/instance={model}"
    found = pods(target, *WHERE, "-l", selector)
    return sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))


def used_by(target: Target, model: str) -> int:
    """Return the bytes of a model's processes on the GPU."""
    uids = [one["metadata"]["uid"] for one in serving_pods(target, model)]
    found = 0
    for pid, used in processes_on_gpu().items():
        with suppress(OSError):
            group = Path(f"/proc/{pid}/cgroup").read_text()
            found += used * any(uid in group for uid in uids)
    return found


def model_of(target: Target, name: str) -> dict[str, Any]:
    """Return a model."""
    return target.document("multimodalmodel", name, *WHERE)


def until(what: str, is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> float:
    """Wait until something holds; return how long that took.

    Raises:
        DevClusterError: it does not in time.
    """
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            raise DevClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)
    return round(time.monotonic() - began, 1)


def holds(target: Target, name: str, condition: str = "Ready") -> bool:
    """Return whether a condition of a model's present spec holds."""
    return walk.conditions_of(model_of(target, name)).get(condition, walk.NOT_THERE).holds


def address(target: Target, name: str) -> str:
    """Return where a model answers: the machine has routes to Services."""
    service = target.document("service", name, *WHERE)
    return f"http://{bracketed(service['spec']['clusterIP'])}"
