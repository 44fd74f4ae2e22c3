"""From a pod of the cache to where its server answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mm_api import labels

QUERIED = frozenset({labels.Component.SERVER, labels.Component.ENCODER})
"""Pods that run `mm-runtime serve`: language models, and vision encoders in pods of their own."""


@dataclass(frozen=True, slots=True)
class ServerPod:
    """A serving pod, or an encoder's, whose server can be queried."""

    name: str
    uid: str
    address: str


def server_pod(pod: Mapping[str, Any]) -> ServerPod | None:
    """Return where a pod's server answers; None for other pods, and while it does not run."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    component = (metadata.get("labels") or {}).get(labels.APP_COMPONENT)
    if component not in QUERIED or "deletionTimestamp" in metadata:
        return None
    if status.get("phase") != "Running" or not status.get("podIP"):
        return None
    return ServerPod(metadata["name"], metadata["uid"], status["podIP"])
