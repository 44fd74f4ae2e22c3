"""What to show when a stage failed: conditions, pods that are not well, their last lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from mm_devcluster.demo import settings
from mm_devcluster.demo.target import Target
from mm_devcluster.demo.walk import conditions_of
from mm_devcluster.errors import DevClusterError

LOG_LINES = 12
EVENTS = 6


def gather(target: Target, model: str) -> str:
    """Return what the cluster knows about the failure; a part that cannot be read says so."""
    parts = (_conditions(target, model), _pods(target), _events(target))
    return "\n".join(line for part in parts for line in part)


def troubles_of(pod: Mapping[str, Any]) -> list[str]:
    """Say what keeps a pod from being well, one line each; empty when it is."""
    status = pod.get("status", {})
    phase = status.get("phase", "Unknown")
    if phase == "Succeeded":
        return []
    lines = [
        f"not scheduled: {condition.get('message', '')}"
        for condition in status.get("conditions", [])
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]
    containers = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
    for container in containers:
        waiting = container.get("state", {}).get("waiting")
        ended = container.get("state", {}).get("terminated") or {}
        if waiting and waiting.get("reason") != "PodInitializing":
            words = f"{waiting.get('reason', '')} {waiting.get('message', '')}".strip()
            lines.append(f"{container['name']} waits: {words}")
        elif ended.get("exitCode"):
            code, reason = ended["exitCode"], ended.get("reason", "")
            lines.append(f"{container['name']} ended with exit code {code} ({reason})")
        elif phase == "Running" and not container.get("ready") and not ended:
            restarts = container.get("restartCount", 0)
            lines.append(f"{container['name']} is not ready, {restarts} restarts")
    return lines


def _conditions(target: Target, name: str) -> Iterator[str]:
    try:
        model = target.document("multimodalmodel", name, "--namespace", settings.DEMO_NAMESPACE)
    except DevClusterError as error:
        yield f"The model cannot be read: {error}"
        return
    if not model:
        return
    yield f"Conditions of {name}:"
    for kind, condition in conditions_of(model).items():
        yield f"  {kind:<14} {condition.status:<8} {condition.reason}: {condition.message}"


def _pods(target: Target) -> Iterator[str]:
    for namespace in (settings.SYSTEM_NAMESPACE, settings.DEMO_NAMESPACE):
        try:
            pods = target.document("pods", "--namespace", namespace).get("items", [])
        except DevClusterError as error:
            yield f"The pods of {namespace} cannot be read: {error}"
            continue
        for pod in pods:
            troubles = troubles_of(pod)
            if troubles:
                name = pod["metadata"]["name"]
                yield f"Pod {namespace}/{name}: " + "; ".join(troubles)
                yield from (f"  | {line}" for line in _last_lines(target, namespace, name))


def _last_lines(target: Target, namespace: str, pod: str) -> list[str]:
    try:
        text = target.call(
            *("logs", pod, "--namespace", namespace, "--all-containers"), f"--tail={LOG_LINES}"
        )
    except DevClusterError:
        return []  # a pod that never started has no log
    return text.splitlines()[-LOG_LINES:]


def _events(target: Target) -> Iterator[str]:
    try:
        text = target.call(
            *("get", "events", "--namespace", settings.DEMO_NAMESPACE),
            *("--field-selector", "type=Warning", "--sort-by", ".lastTimestamp", "--no-headers"),
        )
    except DevClusterError:
        return
    lines = text.splitlines()[-EVENTS:]
    if lines:
        yield f"Last warnings in {settings.DEMO_NAMESPACE}:"
        yield from (f"  {line}" for line in lines)
