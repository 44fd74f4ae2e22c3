"""What the gateway of the same pod found when it warmed the server up and compared answers."""

import http.client
import json

from pydantic import ValidationError

from mm_api.contract import GATEWAY_EVALUATION, GATEWAY_READY
from mm_api.documents.evaluation import EvaluationReport
from mm_api.documents.server_state import PROBLEM_CHARACTERS
from mm_runtime.launch.health import get

_SECONDS = 1.0
"""The operator waits three for everything that a pod says."""


def read_report(host: str, port: int) -> EvaluationReport | None:
    """Return the gateway's report; None: there is no gateway, no answer or nothing compared."""
    answer = get(host, port, GATEWAY_EVALUATION, seconds=_SECONDS) if port else None
    if answer is None or answer[0] != http.client.OK:
        return None
    try:
        return EvaluationReport.from_json(answer[1])
    except ValidationError:
        return None


def read_warm_up_problem(host: str, port: int) -> str | None:
    """Return why the gateway's warm-up fails each time; None: it does not, or says nothing."""
    answer = get(host, port, GATEWAY_READY, seconds=_SECONDS) if port else None
    if answer is None or answer[0] != http.client.SERVICE_UNAVAILABLE:
        return None
    try:
        return str(json.loads(answer[1]).get("problem") or "")[:PROBLEM_CHARACTERS] or None
    except (ValueError, AttributeError):
        return None
