"""Requests the health of a server, and interprets the answer."""

import http.client
import json
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pydantic import ValidationError

from mm_api.contract import GATEWAY_EVALUATION, GATEWAY_READY, METRICS_PATH
from mm_api.documents.evaluation import EvaluationReport
from mm_api.documents.server_state import PROBLEM_CHARACTERS
from mm_api.metrics import EXECUTING_REQUESTS
from mm_runtime.settings import Ports

PROBE_SECONDS = 2.0
"""A healthy server answers in a millisecond; a starved one within a second."""


class State(Enum):
    """What a server can be, as seen from outside."""

    UNREACHABLE = "unreachable"
    """Does not listen: starting, gone, or a library is missing."""

    LOADING = "loading"
    """Listens; not every model is ready."""

    READY = "ready"


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests inside the server, from its own metrics."""

    queued: int
    """Waiting before any model."""

    generating: int
    """Accepted by the language model and not finished, waiting there included."""

    executing: int = 0
    """In hand of a model before the language model; Triton itself counts these nowhere."""

    @property
    def total(self) -> int:
        """Return their sum. A request may count twice for a moment; none counts as zero."""
        return self.queued + self.generating + self.executing


_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:]\w*)(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)")
QUEUED = "nv_inference_pending_request_count"
GENERATING = "nv_trt_llm_request_metrics"
ACTIVE = 'request_type="active"'
"""Name and label of TensorRT-LLM's C++ backend, which the Reference engine uses as well."""


def parse_in_flight(lines: Iterable[str]) -> InFlight:
    """Return the counts in a Prometheus text; a metric that is absent counts as zero."""
    queued = generating = executing = 0.0
    for line in lines:
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        if sample["name"] == QUEUED:
            queued += float(sample["value"])
        elif sample["name"] == GENERATING and ACTIVE in (sample["labels"] or ""):
            generating += float(sample["value"])
        elif sample["name"] == EXECUTING_REQUESTS.name:
            executing += float(sample["value"])
    return InFlight(int(queued), int(generating), int(executing))


def probe(ports: Ports) -> State:
    status = get(ports.probe_host, ports.http, "/v2/health/ready")
    if status is None:
        return State.UNREACHABLE
    return State.READY if status[0] == http.client.OK else State.LOADING


def is_alive(ports: Ports) -> bool:
    status = get(ports.probe_host, ports.http, "/v2/health/live")
    return status is not None and status[0] == http.client.OK


def in_flight(ports: Ports) -> InFlight | None:
    """Return what is in flight, or None when the server does not say: on loopback, always."""
    answer = get("127.0.0.1", ports.metrics, METRICS_PATH)
    if answer is None or answer[0] != http.client.OK:
        return None
    return parse_in_flight(answer[1].splitlines())


def listens(host: str, port: int) -> bool:
    """Return whether a process accepts connections on a port; never on port 0."""
    if port == 0:
        return False
    try:
        socket.create_connection((host, port), timeout=PROBE_SECONDS).close()
    except TimeoutError:
        return True  # a full backlog: a process listens
    except OSError:
        return False
    return True


def get(
    host: str, port: int, path: str, *, seconds: float = PROBE_SECONDS
) -> tuple[int, str] | None:
    """Return status and text of a page, or None without an answer within so many seconds."""
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


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
