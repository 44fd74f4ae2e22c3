"""What the gateway of the same pod found when it compared the server with its checkpoint."""

import http.client

from pydantic import ValidationError

from mm_api.contract import GATEWAY_EVALUATION
from mm_api.documents.evaluation import EvaluationReport

_SECONDS = 1.0
"""The operator waits three for everything that a pod says."""

_MOST_BYTES = 8 * 1024
"""Four times the longest report: 600 characters of a prompt and two answers, and numbers."""


def read_report(host: str, port: int) -> EvaluationReport | None:
    """Return the gateway's report; None: there is no gateway, no answer or nothing compared.

    Args:
        host: where the gateway listens.
        port: its port; 0: there is none.
    """
    if not port:
        return None
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", GATEWAY_EVALUATION)
        response = connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
        if response.status != http.client.OK or len(body) > _MOST_BYTES:
            return None
        return EvaluationReport.from_json(body)
    except (OSError, http.client.HTTPException, ValidationError):
        return None
    finally:
        connection.close()
