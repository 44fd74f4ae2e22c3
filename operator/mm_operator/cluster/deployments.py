"""From Deployment, claim and ConfigMap to the records the planner reads. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mm_api import labels
from mm_api.quoted_text import steady
from mm_operator.cluster.pods import condition, quoted, text_of
from mm_operator.model import ClaimState, ConfigState, DeploymentState, Owner, PodState

_DIGEST_LIMIT = 512
"""Characters: more than is ever written, and a client may write any text."""


def deployment_state(item: Mapping[str, Any]) -> DeploymentState | None:
    """Return a Deployment's counters and troubles.

    None for one whose content is not held (`mm_operator.cluster.bounds`): it is applied again.
    """
    if "spec" not in item:
        return None
    metadata, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    marks = metadata.get("annotations") or {}
    template = (spec["template"].get("metadata") or {}).get("annotations") or {}
    digest = template.get(labels.SERVING_HASH, "")
    progressing = condition(status, "Progressing")
    failure = condition(status, "ReplicaFailure")
    refused = text_of(failure, "message") if failure.get("status") == "True" else ""
    stalled = progressing.get("reason") == "ProgressDeadlineExceeded"
    return DeploymentState(
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        observed_generation=status.get("observedGeneration", 0),
        wanted=spec.get("replicas", 1),
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        available=status.get("availableReplicas", 0),
        serving_hash=digest,
        replica_failure=steady(refused),
        refused_template=_template_of(metadata["name"], refused),
        stalled=quoted(progressing, "message") if stalled else "",
        spec_digest=str(marks.get(labels.SPEC_DIGEST, ""))[:_DIGEST_LIMIT],
        by_turns=bool(digest) and marks.get(labels.BY_TURNS) == digest,
        was_complete=progressing.get("reason") == "NewReplicaSetAvailable",
        template=spec["template"],
    )


def group_state(item: Mapping[str, Any]) -> DeploymentState | None:
    """Return a LeaderWorkerSet as a Deployment of its leaders; None as for a Deployment.

    It has no observed generation: `with_pods` adds what pods say instead.
    """
    if "spec" not in item:
        return None
    spec, status = item["spec"], item.get("status") or {}
    ready, found = status.get("readyReplicas", 0), condition(status, "Available")
    complete = [{"type": "Progressing", "reason": "NewReplicaSetAvailable"}]
    return deployment_state(
        {
            "metadata": item["metadata"],
            "spec": {
                "replicas": spec.get("replicas", 1),
                "template": spec["leaderWorkerTemplate"]["leaderTemplate"],
            },
            "status": {
                **status,
                "observedGeneration": item["metadata"].get("generation", 0),
                "availableReplicas": ready,
                "conditions": complete if found.get("status") == "True" else [],
            },
        }
    )


def with_pods(state: DeploymentState, pods: Sequence[PodState]) -> DeploymentState:
    """Return a state of groups without what its counters say of a former template or pod."""
    ready = sum(pod.ready and not pod.terminating for pod in pods)
    updated = sum(pod.serving_hash == state.serving_hash for pod in pods)
    return replace(
        state,
        ready=min(state.ready, ready),
        available=min(state.available, ready),
        updated=min(state.updated, updated),
    )


def _template_of(deployment: str, refusal: str) -> str:
    named = re.search(rf'pods "{re.escape(deployment)}-([a-z0-9]+)-', refusal)
    return named[1] if named else ""


def claim_state(item: Mapping[str, Any]) -> ClaimState | None:
    """Return a claim as it was requested, and whether it is bound; None as for a Deployment."""
    if "spec" not in item:
        return None
    metadata, spec = item["metadata"], item["spec"]
    return ClaimState(
        name=metadata["name"],
        phase=(item.get("status") or {}).get("phase", ""),
        size=str(((spec.get("resources") or {}).get("requests") or {}).get("storage", "")),
        storage_class=spec.get("storageClassName"),
        access_modes=tuple(spec.get("accessModes") or ()),
        owners=owners_of(item),
    )


def config_state(item: Mapping[str, Any]) -> ConfigState:
    """Return a ConfigMap, its data unread."""
    metadata = item["metadata"]
    return ConfigState(
        name=metadata["name"],
        uid=metadata["uid"],
        data=item.get("data") or {},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        owners=owners_of(item),
    )


def owners_of(item: Mapping[str, Any]) -> tuple[Owner, ...]:
    owners = item["metadata"].get("ownerReferences") or ()
    return tuple(sorted(Owner(owner["name"], owner["uid"]) for owner in owners))
