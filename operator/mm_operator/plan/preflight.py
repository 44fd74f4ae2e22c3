"""Can the spec be carried out at all? Asked before anything is inspected.

The API server's rules refuse most of this already; a CRD of an older version may not. An ordered
tuple of checkers: the first hit is the problem that the user reads.
"""

from collections.abc import Callable

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.plan.families import SERVED

Checker = Callable[[MultimodalModelSpec], SpecError | None]


def first_problem(spec: MultimodalModelSpec) -> SpecError | None:
    """Return the first thing that makes the spec impossible, or None."""
    hits = (check(spec) for check in _CHECKERS)
    return next((hit for hit in hits if hit), None)


def _family_is_known(spec: MultimodalModelSpec) -> SpecError | None:
    if spec.model.family is None or spec.model.family in SERVED:
        return None
    return SpecError(
        reason="NotSupported",
        path="spec.model.family",
        message=f"this version serves {', '.join(sorted(SERVED))} only: got {spec.model.family}",
    )


def _backend_is_reference(spec: MultimodalModelSpec) -> SpecError | None:
    if spec.engine.backend == "Reference":
        return None
    return SpecError(
        reason="NotSupported",
        path="spec.engine.backend",
        message=f"this version serves with Reference only: got {spec.engine.backend}",
    )


_CHECKERS: tuple[Checker, ...] = (_family_is_known, _backend_is_reference)
