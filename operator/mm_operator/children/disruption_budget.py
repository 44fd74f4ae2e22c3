"""The budget that keeps a drained node from taking every replica at once."""

from collections.abc import Mapping
from typing import Any

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot


def build_disruption_budget(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> Manifest | None:
    """Return the budget once several replicas have pods; before, there is nothing that it keeps.

    Not earlier, so that a step of the autoscaler is one request and the budget comes with what
    follows from it. Not always: the disruption controller looks at every budget of a namespace
    for each of its pods, and 3,000 of them held up the rollouts.
    """
    served = plan.rollout.serving_hash or plan.rollout.held
    deployment = snapshot.observed.deployment
    pods = deployment.replicas if deployment else 0
    if not served or min(spec.replicas, pods) <= 1:
        return None
    metadata = own_metadata(
        snapshot,
        name=names.deployment(snapshot.name),
        component=labels.Component.SERVER,
    )
    return one_at_a_time(metadata, selector(snapshot.name))


def one_at_a_time(metadata: Mapping[str, Any], selected: Mapping[str, str]) -> Manifest:
    """Return a budget by which evictions take the selected pods one after the other."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selected},
            # A pod that never became ready holds up no drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
