"""The short-lived pod that gives `mmctl upload` a way into a claim."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from mm_api.v1alpha1 import UserIds
from mm_ctl.documents import UsageError
from mm_operator.children.pod import container_security, pod_security, pull_secrets
from mm_operator.cluster.client import Client
from mm_operator.cluster.pods import why_not_running
from mm_operator.cluster.resources import CLAIM, POD, SECRET, Resource
from mm_operator.errors import ClusterError

_NAMESPACE = Resource("v1", "Namespace", "namespaces")
_OWN_IDS = "openshift.io/sa.scc.uid-range"
"""Annotation of every namespace of OpenShift: the users that its pods may run as."""
_FORBIDDEN = 403
MOUNT = "/mnt/upload"
CONTAINER = "upload"
_LIFETIME_SECONDS = 6 * 3600
"""Ends the pod by itself when mmctl was killed: 100 GB at 5 MB/s fit into it."""
_POLL_SECONDS = 0.25


async def user_ids_of(client: Client, namespace: str) -> UserIds:
    """Return who chooses the user of a namespace's pods; one that may not be read chooses none."""
    try:
        found = await client.get(_NAMESPACE, None, namespace, metadata_only=True)
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
        return "Fixed"
    marks = ((found or {}).get("metadata") or {}).get("annotations") or {}
    return "Namespace" if _OWN_IDS in marks else "Fixed"


def upload_pod(
    claim: str, image: str, namespace: str, user_ids: UserIds, image_pull_secrets: Sequence[str]
) -> dict[str, Any]:
    """Return the pod: it passes Pod Security `restricted` and only sleeps."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"mmctl-upload-{uuid4().hex[:10]}",
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "mmctl"},
        },
        "spec": {
            "activeDeadlineSeconds": _LIFETIME_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": pod_security(user_ids),
            **pull_secrets(list(image_pull_secrets)),
            "containers": [
                {
                    "name": CONTAINER,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", str(_LIFETIME_SECONDS)],
                    "resources": {
                        "requests": {"cpu": "50m", "memory": "64Mi"},
                        "limits": {"memory": "256Mi"},
                    },
                    "securityContext": container_security(),
                    "volumeMounts": [{"name": "target", "mountPath": MOUNT}],
                }
            ],
            "volumes": [{"name": "target", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


async def start(client: Client, pod: dict[str, Any], timeout_seconds: float) -> str:
    """Create the pod, wait until it runs, return its name; UsageError: no claim, or not in time."""
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    if await client.get(CLAIM, namespace, claim) is None:
        raise UsageError(f"there is no claim {claim} in namespace {namespace}: create it first")
    for secret in pod["spec"].get("imagePullSecrets", []):
        await _require_secret(client, namespace, secret["name"])
    await client.create(POD, namespace, pod)
    try:
        await _until_running(client, namespace, name, timeout_seconds)
    except BaseException:
        await client.delete(POD, namespace, name)
        raise
    return str(name)


async def _require_secret(client: Client, namespace: str, name: str) -> None:
    """Refuse a Secret that is not there; one that may not be read is left to the kubelet.

    The kubelet would pull without it, and report that the image does not exist.
    """
    try:
        found = await client.get(SECRET, namespace, name, metadata_only=True)
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
        return
    if found is None:
        raise UsageError(
            f"there is no Secret {name} in namespace {namespace}: create it there, of type"
            " kubernetes.io/dockerconfigjson"
        )


async def _until_running(client: Client, namespace: str, name: str, timeout: float) -> None:  # noqa: ASYNC109  # says what it waited for when the time is up
    deadline = time.monotonic() + timeout
    while True:
        live = await client.get(POD, namespace, name) or {}
        phase = (live.get("status") or {}).get("phase")
        if phase == "Running":
            return
        if phase in {"Failed", "Succeeded"} or time.monotonic() > deadline:
            why = why_not_running(live) if live else "it was deleted"
            raise UsageError(f"the upload pod does not run ({phase}): {why or 'no reason given'}")
        await asyncio.sleep(_POLL_SECONDS)
