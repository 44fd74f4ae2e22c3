"""What a pod found when it compared its server with its checkpoint."""

import httpx

from mm_api.documents.evaluation import EvaluationReport, FirstDifference
from mm_api.documents.server_state import PATH, ServerState
from support.eventually import eventually


def report_of(server: str) -> EvaluationReport:
    """Wait for the comparison, as the operator reads it beside the metrics of a server."""

    def compared() -> EvaluationReport | None:
        try:
            answer = httpx.get(f"{server}{PATH}", timeout=60)
        except httpx.TransportError:
            return None
        return ServerState.from_json(answer.content).evaluation

    found = eventually(compared, seconds=240)
    assert found is not None
    return found


def readiness_of(gateway: str) -> httpx.Response:
    """Return what a compared pod says; a busy server does not answer its probes in time."""

    def evaluated() -> httpx.Response | None:
        answer = httpx.get(f"{gateway}/readyz", timeout=60)
        return answer if answer.is_success or "EvaluationFailed" in answer.text else None

    found = eventually(evaluated)
    assert found is not None
    return found


def difference_of(server: str, gateway: str) -> tuple[EvaluationReport, FirstDifference]:
    """Return the report of a pod that is never ready, and the difference that it names."""
    report, answer = report_of(server), readiness_of(gateway)
    first = report.first_difference
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert first is not None
    detail = answer.json()["detail"]
    assert "EvaluationFailed" in detail
    assert f"token {first.token}:" in detail
    assert first.prompt in detail
    assert first.distance > first.bound
    return report, first
