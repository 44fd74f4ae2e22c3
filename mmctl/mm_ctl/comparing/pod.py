"""The pod that compares a model with its checkpoint: as the model's own pods, without a server.

It has what the gateway of those pods has: the image, the engine, the serving plan, the tokens.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4

from pydantic import ValidationError

from mm_api import labels
from mm_api.contract import TERMINATION_LOG, Command, Flag
from mm_api.documents.evaluation import EvaluationReport
from mm_ctl.documents import UsageError
from mm_operator.children.pod import WITHOUT_SIDECAR
from mm_operator.cluster.client import Client
from mm_operator.cluster.pods import why_not_running
from mm_operator.cluster.resources import POD

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


_POLL_SECONDS = 0.5


class CompareFailedError(Exception):
    """The comparison has no result; the message says why."""


async def run_to_end(
    client: Client, pod: dict[str, Any], seconds: float, progress: Callable[[str], None]
) -> EvaluationReport:
    """Create the pod, wait for its end, delete it and return its report; CompareFailedError: none.

    `progress`: called with the phase, and why the pod waits, whenever they have changed.
    """
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    await client.create(POD, namespace, pod)
    try:
        return _result(await _ended(client, namespace, name, seconds, progress))
    finally:
        await asyncio.shield(client.delete(POD, namespace, name))


async def _ended(
    client: Client, namespace: str, name: str, seconds: float, progress: Callable[[str], None]
) -> Mapping[str, Any]:
    deadline, shown = time.monotonic() + seconds, ""
    while True:
        live = await client.get(POD, namespace, name)
        if live is None:
            raise CompareFailedError("the pod of the comparison was deleted")
        phase = str((live.get("status") or {}).get("phase", "Pending"))
        why = why_not_running(live) if phase == "Pending" else ""
        if (said := f"{phase}: {why}" if why else phase) != shown:
            progress(said)
            shown = said
        if phase in {"Failed", "Succeeded"}:
            return live
        if time.monotonic() > deadline:
            raise CompareFailedError(
                f"the comparison did not end within {seconds:.0f} s ({phase}): "
                f"{why_not_running(live) or 'it computes; raise --timeout'}"
            )
        await asyncio.sleep(_POLL_SECONDS)


def _result(live: Mapping[str, Any]) -> EvaluationReport:
    status = live["status"]
    states = status.get("containerStatuses") or ()
    own: Mapping[str, Any] = next((one for one in states if one["name"] == CONTAINER), {})
    ended = (own.get("state") or {}).get("terminated") or {}
    message = str(ended.get("message") or status.get("message") or "no reason given").strip()
    if ended.get("reason") == "OOMKilled":
        raise CompareFailedError("the comparison needed more memory than --memory: raise it")
    if ended.get("exitCode") != 0:
        raise CompareFailedError(f"the comparison failed: {message}")
    try:
        return EvaluationReport.from_json(message)
    except ValidationError as error:
        raise UsageError(
            f"the runtime image of the model printed no report that this mmctl reads: use the "
            f"mmctl of its release ({error.error_count()} fields differ)"
        ) from error
