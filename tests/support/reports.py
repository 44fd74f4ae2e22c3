"""What a pod found when it compared its server with its checkpoint."""

import httpx

from mm_api.documents.evaluation import EvaluationReport
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
