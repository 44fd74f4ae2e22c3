"""Jobs that pull the image of a model's pods on one node each, and do nothing with it."""

from typing import Any, Final

from mm_api import labels
from mm_api.contract import Command
from mm_api.v1alpha1 import MultimodalModelSpec, RuntimeGpu
from mm_operator.children import pod
from mm_operator.children.job_pod import build_job_template
from mm_operator.children.metadata import Manifest, own_labels, own_metadata
from mm_operator.model import Plan, Snapshot

LIMIT_SECONDS: Final = 3600
"""From the Job's begin, so that a node that never takes the pod holds none of the places."""

REST_SECONDS: Final = 86_400
"""That a Job says that its node was given the image; then the node may be given it again."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUESTS: Final = {"cpu": "10m", "memory": "32Mi"}
"""The program prints its help and ends: 32 MiB resident at its peak, 0.2 s of a core. The image is
pulled by the node's runtime, in whose memory, and its layers count for no pod."""
_MEMORY_LIMIT: Final = "128Mi"
"""Four times the peak, so that a release that imports more to print its help is not killed."""


def build_pull_jobs(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> tuple[Manifest, ...]:
    """Return the Jobs that start now."""
    return tuple(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": own_metadata(snapshot, name=job, component=labels.Component.PRE_PULL),
            "spec": {
                "activeDeadlineSeconds": LIMIT_SECONDS,
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": REST_SECONDS,
                "template": build_job_template(
                    own_labels(snapshot.name, labels.Component.PRE_PULL),
                    _pod(snapshot, spec, node),
                ),
            },
        }
        for node, job in plan.pre_pull.start.items()
    )


def _pod(snapshot: Snapshot, spec: MultimodalModelSpec, node: str) -> Manifest:
    account = spec.runtime.service_account_name
    container: Manifest = {
        "name": "pull",
        "image": snapshot.settings.server_image_of(spec),
        "imagePullPolicy": "IfNotPresent",
        "command": _program(spec),  # any program of the image: to start it is to pull
        "env": pod.environment(),
        "resources": pod.small(_REQUESTS, _MEMORY_LIMIT, beside=spec.runtime.resources),
        "securityContext": pod.container_security(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    placed = pod.placement(spec.runtime, RuntimeGpu())
    placed.pop("priorityClassName", None)  # nothing is preempted for a pull
    return {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": pod.pod_security(snapshot.settings.user_ids_of(spec)),
        "terminationGracePeriodSeconds": 0,
        "volumes": [pod.scratch("tmp")],
        **({"serviceAccountName": account} if account else {}),
        **pod.pull_secrets(snapshot.settings.pull_secrets_of(spec)),
        **placed,
        "affinity": _on(node, spec.runtime.affinity or {}),
    }


def _program(spec: MultimodalModelSpec) -> list[str]:
    return [Command.PROGRAM, "--help"] if spec.engine.traits.supervised else ["true"]


def _on(node: str, given: dict[str, Any]) -> Manifest:
    """Return the affinity for one node; nodes that pods of the model may not have stay out."""
    this = {"key": "metadata.name", "operator": "In", "values": [node]}
    required: Manifest = (given.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    given_terms: list[Manifest] = required.get("nodeSelectorTerms") or [{}]
    terms = [{**term, "matchFields": [*term.get("matchFields", ()), this]} for term in given_terms]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
