"""What one operator did during one phase: requests, event loop, Lease, CPU, memory.

/metrics is read at the bounds of a phase only: at 1,000 models it is work for the operator.
"""

import re
import time
from typing import Any

from harness import WRITES, OperatorProcess

_LAG = re.compile(
    r'^mm_operator_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE
)
_LED = re.compile(r"leading as ")
_QUIET_SECONDS = 3.0
_BUSY_SHARE = 0.05
"""Of a core: an operator at rest takes less than a hundredth."""


class Phase:
    """Measures from `begin` to `end`; a new process begins at zero."""

    def __init__(self, operator: OperatorProcess, *, entire_life: bool = False) -> None:
        self._operator = operator
        self.started = operator.started if entire_life else time.monotonic()
        self._requests = {} if entire_life else operator.requests()
        self._lags = {} if entire_life else lags(operator)
        self._errors = 0 if entire_life else operator.errors()
        self._reconciles = 0 if entire_life else operator.reconciles()
        self._led = 1 if entire_life else terms(operator)
        self._cpu = 0.0 if entire_life else operator.cpu_seconds()

    def end(self, seconds: float | None = None) -> dict[str, Any]:
        """Return the numbers; `seconds` where the phase ended before they are read."""
        operator = self._operator
        took = seconds if seconds is not None else time.monotonic() - self.started
        cpu = operator.cpu_seconds() - self._cpu
        requests = {
            name: count - self._requests.get(name, 0)
            for name, count in operator.requests().items()
            if count != self._requests.get(name, 0)
        }
        events = requests.get("create events", 0) + requests.get("patch events", 0)
        writes = sum(count for name, count in requests.items() if name.split()[0] in WRITES)
        resident = operator.resident_bytes()
        return {
            "seconds": round(took, 1),
            "writes": writes - events,
            "event_writes": events,
            "reads": sum(requests.values()) - writes,
            "requests": dict(sorted(requests.items())),
            "reconciles": operator.reconciles() - self._reconciles,
            "failed_reconciles": operator.errors() - self._errors,
            "loop_lag_seconds": lag_summary(lags(operator), self._lags),
            "lease_losses": max(0, terms(operator) - max(self._led, 1)),
            "cpu_seconds": round(cpu, 1),
            "resident_bytes": resident,
            "peak_resident_bytes": operator.peak_bytes,
        }


class Quiet:
    """Waits until an operator has nothing to do, as its CPU time reports."""

    def __init__(self, operator: OperatorProcess) -> None:
        self._operator = operator
        self._cpu = operator.cpu_seconds()
        self._looked = self.since = time.monotonic()

    def look(self) -> bool:
        """Return whether it has been quiet for long enough; `since` is when that began."""
        cpu, now = self._operator.cpu_seconds(), time.monotonic()
        if cpu - self._cpu > _BUSY_SHARE * (now - self._looked):
            self.since = now
        self._cpu, self._looked = cpu, now
        return now - self.since > _QUIET_SECONDS


def terms(operator: OperatorProcess) -> int:
    """Return how often a replica began to lead."""
    return len(_LED.findall(operator.log.read_text()))


def lags(operator: OperatorProcess) -> dict[float, float]:
    """Return upper edge -> observations up to it, of the event loop's lag; empty: not measured."""
    return {float(edge): float(count) for edge, count in _LAG.findall(operator.metrics())}


def lag_summary(now: dict[float, float], before: dict[float, float]) -> dict[str, Any] | None:
    """Return p50, p99 and the maximum, each as the upper edge of the bucket that it lies in."""
    counts = [(edge, count - before.get(edge, 0.0)) for edge, count in sorted(now.items())]
    if not counts or not counts[-1][1]:
        return None
    total = counts[-1][1]

    def edge_of(share: float) -> float | str:
        edge = next(edge for edge, count in counts if count >= share * total)
        return edge if edge != float("inf") else "more than the last bucket"

    return {
        "observations": int(total),
        "p50": edge_of(0.5),
        "p99": edge_of(0.99),
        "max": edge_of(1),
    }
