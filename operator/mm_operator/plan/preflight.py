"""Can the spec be carried out at all? Checked before anything is inspected.

The API server's rules refuse most of this already; a CRD of an older version may not. An ordered
tuple of checkers: the first hit is the problem that the user reads.
"""

from collections.abc import Callable

from mm_api.families import FAMILIES, SERVED
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator.errors import SpecError
from mm_operator.model import Snapshot
from mm_operator.plan.adapters import access_problem
from mm_operator.plan.engine.family import check_served
from mm_operator.plan.store import store_of

Checker = Callable[[MultimodalModelSpec], SpecError | None]


def first_problem(spec: MultimodalModelSpec) -> SpecError | None:
    """Return the first thing that makes the spec impossible, or None."""
    hits = (check(spec) for check in _CHECKERS)
    return next((hit for hit in hits if hit), None)


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


def _family_is_computed(spec: MultimodalModelSpec) -> SpecError | None:
    if not spec.engine.traits.runs_checkpoints or spec.model.family in {None, *SERVED}:
        return None
    return next(check_served(FAMILIES[spec.model.family]), None) if spec.model.family else None


def _pods_end_after_their_requests(spec: MultimodalModelSpec) -> SpecError | None:
    requested = spec.rollout.drain_timeout
    least = duration.parse(spec.gateway.request_timeout) + duration.DRAIN_MARGIN
    if requested is None or duration.parse(requested) >= least:
        return None
    return SpecError(
        reason="InvalidSpec",
        path="spec.rollout.drainTimeout",
        message=f"{requested} is less than 2s above gateway.requestTimeout "
        f"{spec.gateway.request_timeout}: requests would be cut off when a pod ends; raise it, or "
        "remove it",
    )


_CHECKERS: tuple[Checker, ...] = (
    _family_is_computed,
    _pods_end_after_their_requests,
    access_problem,
)
