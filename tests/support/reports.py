"""What a pod found when it compared its server with its checkpoint."""

import httpx

from mm_api.documents.evaluation import EvaluationReport
from mm_api.documents.server_state import PATH, ServerState
from support.eventually import eventually


def report_of(server: str) -> EvaluationReport:
    """Wait for the comparison, as the operator reads it beside the metrics of a server."""

    def compared() -> EvaluationReport | None:
        try:
            answer = httpx.get(f"{server}{PATH}", timeout=10)
        except httpx.TransportError:
            return None
        return ServerState.from_json(answer.content).evaluation

    found = eventually(compared, seconds=240)
    assert found is not None
    return found
