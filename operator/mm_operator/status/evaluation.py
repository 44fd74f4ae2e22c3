"""`status.evaluation`: how the served engine compares with its checkpoint."""

from typing import Any

from pydantic import ValidationError

from mm_api.documents.evaluation import EvaluationReport
from mm_operator.digests import plain
from mm_operator.model import Plan, Snapshot


def evaluation_of(snapshot: Snapshot, plan: Plan) -> EvaluationReport | None:
    """Return what a pod of the planned engine found; one with a difference comes first.

    What was found stays while no pod says anything: an operator that has just started has not
    queried the pods yet.
    """
    if plan.build_plan is None:
        return None
    wanted = plan.build_plan.fingerprint
    found = [
        one.evaluation
        for one in snapshot.servers
        if one.evaluation is not None and one.evaluation.fingerprint == wanted
    ]
    if not found:
        return _before(snapshot, wanted)
    return next((one for one in found if one.first_difference is not None), found[0])


def evaluation_problem(snapshot: Snapshot, plan: Plan) -> str | None:
    """Return how the engine differs from its checkpoint; None: nothing of the kind is known."""
    report = evaluation_of(snapshot, plan)
    return report.problem if report else None


def evaluation_summary(snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
    """Return the part of the status; empty while nothing was compared."""
    if plan.frozen:
        return {key: snapshot.status[key] for key in ("evaluation",) if key in snapshot.status}
    report = evaluation_of(snapshot, plan)
    return {"evaluation": plain(report)} if report else {}


def _before(snapshot: Snapshot, wanted: str) -> EvaluationReport | None:
    try:
        report = EvaluationReport.model_validate(snapshot.status.get("evaluation"))
    except ValidationError:  # absent, or of a version that wrote something else
        return None
    return report if report.fingerprint == wanted else None
