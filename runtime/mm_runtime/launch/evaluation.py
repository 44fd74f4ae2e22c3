"""What the gateway of the same pod found when it warmed the server up and compared answers."""

import http.client
import json

from pydantic import ValidationError

from mm_api.contract import GATEWAY_EVALUATION, GATEWAY_READY
from mm_api.documents.evaluation import EvaluationReport
from mm_api.documents.server_state import PROBLEM_CHARACTERS

_SECONDS = 1.0
"""The operator waits three for everything that a pod says."""

_MOST_BYTES = 8 * 1024
"""Four times the longest report: 600 characters of a prompt and two answers, and numbers."""


def read_report(host: str, port: int) -> EvaluationReport | None:
    """Return the gateway's report; None: there is no gateway, no answer or nothing compared.

    `port`: its port; 0: there is none.
    """
    status, body = _read(host, port, GATEWAY_EVALUATION)
    try:
        return EvaluationReport.from_json(body) if status == http.client.OK else None
    except ValidationError:
        return None


def read_warm_up_problem(host: str, port: int) -> str | None:
    """Return why the gateway's warm-up fails each time; None: it does not, or says nothing.

    `port`: its port; 0: there is none.
    """
    status, body = _read(host, port, GATEWAY_READY)
    try:
        said = json.loads(body) if status == http.client.SERVICE_UNAVAILABLE else {}
        return str(said.get("problem") or "")[:PROBLEM_CHARACTERS] or None
    except (ValueError, AttributeError):
        return None


def _read(host: str, port: int, path: str) -> tuple[int, bytes]:
    """Return status and body of an answer; zero and nothing: there is none that is short enough."""
    if not port:
        return 0, b""
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
        return (response.status, body) if len(body) <= _MOST_BYTES else (0, b"")
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
