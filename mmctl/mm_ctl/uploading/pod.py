"""The short-lived pod that gives `mmctl upload` a way into a claim, by `kubectl exec`."""

import asyncio
import subprocess
import tarfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
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


_HELD = 'set -e; mkdir -p "$0"; cd "$0"; find . -type f -exec sha256sum -z {} +'
_RECEIVED = r"""set -e; mkdir -p "$0"; cd "$0"
find . -name '*.uploading' -delete
tar -xf - --transform='s,$,.uploading,'
sync -f .
find . -name '*.uploading' \
  -exec sh -ec 'to="${0%.uploading}"; mv "$0" "$to"; sha256sum -z "$to"' {} \;
"""
"""Each file is written beside its place and renamed: half of one never takes it."""


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode = 0o644  # for pods of other users too
    return member


def digests(
    options: Sequence[str], pod: str, target: str, directory: Path, names: Sequence[str] = ()
) -> dict[str, str]:
    """Send files into a directory of the pod; return relative path -> SHA-256 of what it has.

    `options`: of kubectl. `names`: of files in `directory`, of which alone digests are returned;
    empty: of all that are there, and nothing is sent. UsageError: there is no kubectl.
    ClusterError: a file or the connection went away, or it failed; with last words.
    """
    words = ["kubectl", *options, "exec", "-i", pod, f"--container={CONTAINER}", "--"]
    words += ["sh", "-c", _RECEIVED if names else _HELD, target]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
    except FileNotFoundError as error:
        raise UsageError("there is no kubectl: install it") from error
    with process:
        try:
            if names:
                with (
                    suppress(BrokenPipeError),  # it has ended, and said why
                    tarfile.open(fileobj=process.stdin, mode="w|", dereference=True) as archive,
                ):
                    for name in names:
                        archive.add(directory / name, name, filter=_readable)
            output, errors = process.communicate()
        except OSError as error:
            process.kill()
            process.communicate()  # drops what was not sent, whose error would hide this one
            raise ClusterError(0, POD.kind, pod, f"the files were not sent: {error}") from error
    if process.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-3:]
        raise ClusterError(0, POD.kind, pod, " | ".join(last) or "kubectl exec ended early")
    lines = (line.partition("  ") for line in output.decode().split("\0") if line)
    return {name.removeprefix("./"): digest for digest, _, name in lines}
