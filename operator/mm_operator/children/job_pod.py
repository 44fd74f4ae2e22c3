"""The pod of a Job: one container that runs `mm-runtime`, whose last message is its report."""

from collections.abc import Sequence
from typing import Any

from mm_api.contract import CANNOT_START, TIME_LIMIT_VARIABLE, ExitCode
from mm_api.v1alpha1 import MultimodalModelSpec, RuntimeGpu
from mm_operator.children import pod, volumes
from mm_operator.children.metadata import Manifest
from mm_operator.children.outward import with_network
from mm_operator.model import Snapshot

LEAST_WAITING_SECONDS = 3600
"""That a pod on its node may wait for volumes and its image, and never less than it may run.
Attaching takes minutes, a volume of millions of files or an image of 30 GB tens of minutes; the
condition says meanwhile what it waits for. It has an end, because the pod holds GPUs."""


def build_job(metadata: Manifest, job_pod: Manifest, *, retries: int, **terms: Any) -> Manifest:
    """Return a Job whose pods have its labels, and no sidecar of a mesh.

    `terms`: what else its spec says.
    """
    without = pod.WITHOUT_SIDECAR
    template = {
        "metadata": {
            "labels": {**without["labels"], **metadata["labels"]},
            "annotations": dict(without["annotations"]),
        },
        "spec": job_pod,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"backoffLimit": retries, **terms, "template": template},
    }


def build_job_pod(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    *,
    name: str,
    limit_seconds: int,
    arguments: Sequence[str],
    environment: Sequence[Manifest],
    resources: Manifest,
    mounts: Sequence[Manifest],
    attached: list[Manifest],
    documents: Sequence[Manifest] = (),
    gpu: RuntimeGpu | None = None,
    claims: Manifest | None = None,
) -> Manifest:
    """Return the pod's spec, of one container `name`.

    `arguments`: of `mm-runtime`, without where it reports. `environment`, `mounts`: besides those
    of every container. `attached`: volumes that serving pods may hold on one node; `documents`: of
    the operator's. `gpu`: whose product the node must have. `claims`: what the pod says of claims
    for devices.
    """
    container = pod.container(
        name,
        spec.build.image or snapshot.settings.runtime_image,
        arguments,
        variables=[{"name": TIME_LIMIT_VARIABLE, "value": str(limit_seconds)}, *environment],
        mounts=mounts,
        resources=resources,
    )
    account = spec.build.service_account_name
    job_pod: Manifest = {
        # Of the pod, not of the Job: waiting for a GPU is not building, and a pod that ran too long
        # counts as one attempt instead of ending the Job.
        # The program keeps its own limit; this one counts from the pod's start on a node, so what
        # it waits there for a volume or an image comes on top.
        "activeDeadlineSeconds": limit_seconds + max(limit_seconds, LEAST_WAITING_SECONDS),
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": pod.pod_security(snapshot.settings.user_ids_of(spec)),
        **({"serviceAccountName": account} if account else {}),
        "shareProcessNamespace": pod.SHARE_PROCESSES,
        "volumes": [*attached, *documents, pod.scratch("tmp")],
        **pod.pull_secrets(snapshot.settings.pull_secrets_of(spec)),
        **volumes.beside_servers(snapshot, spec, attached),
        **pod.placement(spec.build, gpu or RuntimeGpu()),
        **(claims or {}),
    }
    return with_network(job_pod, spec.network.over(snapshot.settings.network), proxied={name})


def failure_policy(container: str, permanent: Sequence[ExitCode]) -> Manifest:
    """Return what ends a Job at once, and what does not count as an attempt."""
    return {
        "rules": [
            {
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": container,
                    "operator": "In",
                    "values": [int(code) for code in (*permanent, *CANNOT_START)],
                },
            },
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        ]
    }
