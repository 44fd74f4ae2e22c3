"""The pod that compares a model with its checkpoint: as the model's own pods, without a server.

It has what the gateway of those pods has: the image, the engine, the serving plan, the tokens.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4

from mm_api import labels
from mm_api.contract import TERMINATION_LOG, Command, Flag
from mm_operator.children.pod import WITHOUT_SIDECAR

CONTAINER: Final = "compare"
_GATEWAY: Final = "gateway"
_PULL: Final = "pull"
_DOCUMENTS: Final = (Flag.MANIFEST, Flag.SERVING, Flag.AUTH_TOKEN_FILE)
"""Options of the gateway that this command has, too."""

_KEPT: Final = (
    *("affinity", "imagePullSecrets", "nodeSelector", "securityContext", "serviceAccountName"),
    *("tolerations", "volumes"),
)
"""Fields of the pods' spec: where they may run, as whom, and what they read."""

_NAME_LENGTH: Final = 40
"""Length of the model's name, at the most: pods' names have 63 characters."""


def compare_pod(
    deployment: Mapping[str, Any], url: str, *, memory: str, seconds: int
) -> dict[str, Any]:
    """Return the pod that compares a Deployment, at a `url` up to and with `/v1`, in `seconds`."""
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    spec = template["spec"]
    gateway = next(one for one in spec["containers"] if one["name"] == _GATEWAY)
    own = {
        "name": CONTAINER,
        "image": gateway["image"],
        "imagePullPolicy": gateway.get("imagePullPolicy", "IfNotPresent"),
        "command": [Command.PROGRAM],
        "args": [
            *(Command.COMPARE, Flag.URL, url, Flag.TERMINATION_LOG, TERMINATION_LOG),
            *_documents(gateway["args"]),
        ],
        "env": gateway.get("env", []),
        "resources": {
            "requests": {"cpu": "500m", "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": gateway["securityContext"],
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": gateway["volumeMounts"],
    }
    pulls = [one for one in spec.get("initContainers") or () if one["name"] == _PULL]
    name = f"mmctl-compare-{metadata['name'][:_NAME_LENGTH].rstrip('-')}-{uuid4().hex[:8]}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {labels.APP_MANAGED_BY: "mmctl", **WITHOUT_SIDECAR["labels"]},
            "annotations": dict(WITHOUT_SIDECAR["annotations"]),
        },
        "spec": {
            **{field: spec[field] for field in _KEPT if field in spec},
            "affinity": _beside(spec.get("affinity"), metadata["name"]),
            "activeDeadlineSeconds": seconds,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "initContainers": pulls,
            "containers": [own],
        },
    }


def _documents(arguments: list[str]) -> Iterator[str]:
    for flag, value in pairwise(arguments):
        if flag in _DOCUMENTS:
            yield from (flag, value)


def _beside(affinity: Mapping[str, Any] | None, model: str) -> dict[str, Any]:
    """Prefer a node of the model's pods: a volume of one node is attached there."""
    wanted = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {
                "matchLabels": {
                    labels.MODEL: model,
                    labels.APP_COMPONENT: labels.Component.SERVER,
                }
            },
        },
    }
    kept = dict(affinity or {})
    pods = dict(kept.get("podAffinity") or {})
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    pods[preferred] = [*(pods.get(preferred) or []), wanted]
    return {**kept, "podAffinity": pods}
