"""Which pods can attach the claim that keeps the engines, and of how many nodes."""

from dataclasses import replace

from mm_api.documents.model_plan import PlanWarning
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import EnginePlan, Snapshot
from mm_operator.plan.store import Store, store_of

_SEVERAL_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def store_problem(snapshot: Snapshot, spec: MultimodalModelSpec) -> SpecError | None:
    """Return why no pod could serve from the claim that keeps the engines, or None.

    Engines of a bucket are pulled to the node's disk; a claim is then held by builds only.
    """
    store = store_of(spec)
    if store.bucket or store.claim not in snapshot.claims_of_one_pod:
        return None
    return SpecError(
        reason="NotSupported",
        path="spec.build.store.persistentVolumeClaim.claimName",
        message=f"claim {store.claim} is ReadWriteOncePod, so a build and the pods that serve what "
        "it built can never have it at one time: use a claim that is ReadWriteOnce (one node) or "
        "ReadWriteMany",
    )


def with_store_access(
    planned: EnginePlan, snapshot: Snapshot, spec: MultimodalModelSpec
) -> EnginePlan:
    """Return the plan with a warning where replicas cannot leave one node.

    On a cluster of one node that is right, so it is no refusal.
    """
    store, most = store_of(spec), _most_replicas(spec)
    if store.bucket or most == 1 or not _on_one_node(snapshot, spec, store):
        return planned
    warning = PlanWarning(
        code="StoreOnOneNode",
        message=f"claim {store.claim} is ReadWriteOnce, so the up to {most} replicas and the build "
        "have to run on one node: one that is scheduled elsewhere never starts. Use a "
        "ReadWriteMany claim (spec.build.store.accessMode, or persistentVolumeClaim) or a bucket "
        "(spec.build.store.s3), or make the node hold all of them",
    )
    return replace(planned, warnings=(warning, *planned.warnings))


def _on_one_node(snapshot: Snapshot, spec: MultimodalModelSpec, store: Store) -> bool:
    if not store.operator_made:
        return store.claim in snapshot.claims_of_one_node
    found = snapshot.observed.store
    modes = found.access_modes if found else (spec.build.store.access_mode,)
    return not _SEVERAL_NODES.intersection(modes)


def _most_replicas(spec: MultimodalModelSpec) -> int:
    scaled = spec.autoscaling
    if scaled is None or scaled.mode == "Off":
        return spec.replicas
    return max(spec.replicas, scaled.max_replicas)
