"""Which of our objects moves a model's replicas: at most one, and only without another writer."""

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.model import Plan, Ref, Snapshot


def is_wanted(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan, *, engine: str, ref: Ref
) -> bool:
    """Return whether the object of an engine should exist.

    It is made when the autoscaler has said so, which looks for rivals first. A new leader says
    nothing until its first look: what is there stays until then, and nothing is made.
    """
    wanted, served = spec.autoscaling, plan.rollout.serving_hash or plan.rollout.held
    if wanted is None or not served or (wanted.engine, wanted.mode) != (engine, "Enforce"):
        return False
    if snapshot.scaling is None:
        return ref in snapshot.observed.refs
    return snapshot.scaling.mover == engine
