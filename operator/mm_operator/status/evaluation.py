"""`status.evaluation`: how the served engine compares with its checkpoint."""

from typing import Any

from mm_api.documents.evaluation import EvaluationReport
from mm_operator.digests import plain
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.records import parse, understood


def evaluation_of(snapshot: Snapshot, plan: Plan) -> EvaluationReport | None:
    """Return what was found of the planned engine.

    A pod's difference comes first, then a comparison that a user has started, which has more
    prompts, then what another pod found. What was found stays while no pod says anything: an
    operator that has just started has not queried the pods yet.
    """
    if plan.build_plan is None:
        return None
    wanted = plan.build_plan.fingerprint
    found = [
        one.evaluation
        for one in snapshot.servers
        if one.evaluation is not None and one.evaluation.fingerprint == wanted
    ]
    wrong = next((one for one in found if one.first_difference is not None), None)
    started = _read(snapshot.comparison, wanted)
    return wrong or started or next(iter(found), None) or _before(snapshot, wanted)


def evaluation_missing(snapshot: Snapshot, plan: Plan) -> str | None:
    """Return that the spec wants an evaluation and there is none; None: all is well."""
    spec = snapshot.spec
    if spec is None or not spec.rollout.require_evaluation or evaluation_of(snapshot, plan):
        return None
    return (
        "spec.rollout.requireEvaluation is set, and the served engine was compared with its "
        f"checkpoint by nothing: run mmctl compare {snapshot.name} --reference, or build it with "
        "spec.build.evaluation Auto"
    )


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


def _read(text: str, wanted: str) -> EvaluationReport | None:
    report = parse(EvaluationReport, text)  # of another version, or written by hand: None
    known = report is not None and report.reference is not None and report.fingerprint == wanted
    return report if known else None


def _before(snapshot: Snapshot, wanted: str) -> EvaluationReport | None:
    report = understood(EvaluationReport, snapshot.status.get("evaluation"))
    return report if report and report.fingerprint == wanted else None
