"""What Prometheus would know: counters and latencies by the second, and windows over them."""

import math
from typing import NamedTuple

from mm_lab.simulation.request import Request
from mm_lab.simulation.score import Targets
from mm_operator.autoscaling import LatencyMetric, RequestRate

SHORTEST_MEAN = 16
"""Tokens of the shortest answer that has an inter-token latency, the mean of its gaps: of a shorter
one it would be the length of another request's prompt."""


class _Counters(NamedTuple):
    """Running totals, as the counters of all pods together."""

    arrived: int = 0
    image_tokens: int = 0
    text_tokens: int = 0
    refused: int = 0
    ended: int = 0
    output_tokens: int = 0
    in_flight_seconds: int = 0
    running_seconds: int = 0
    prompt_tokens: int = 0
    """Not a total: prompts that are not read yet, as a gauge."""


class Meters:
    """Second by second samples, and the totals that the score is made of."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self.total = 0
        self.good = 0
        self.lost = 0
        self.refusals = 0
        self.first_tokens: list[float] = []
        """Seconds to the first token, of every request that got one."""
        self.misses: list[float] = []
        """When the requests arrived that missed an objective; of lost ones, when they died."""
        self._waited_long: set[int] = set()
        self._image_tokens = 0
        self._text_tokens = 0
        self._ended = 0
        self._output_tokens = 0
        self._in_flight_seconds = 0
        self._running_seconds = 0
        self._seconds: list[_Counters] = [_Counters()]
        self._open: dict[LatencyMetric, list[float]] = {metric: [] for metric in LatencyMetric}
        self._samples: dict[LatencyMetric, list[list[float]]] = {
            metric: [[]] for metric in LatencyMetric
        }

    # --- what replicas report ---------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        """Count a request at the door."""
        self.total += 1
        self._image_tokens += request.image_tokens
        self._text_tokens += request.text_tokens

    def refused(self, request: Request) -> None:
        """Count a refusal: to its sender it is a missed objective, to the gateway no token."""
        self.refusals += 1
        self._image_tokens -= request.image_tokens
        self._text_tokens -= request.text_tokens
        self.misses.append(request.at)

    def died(self, count: int, at: float) -> None:
        """Count requests that ended with their replica."""
        self.lost += count
        self.misses.extend([at] * count)

    def admitted(self, request: Request, at: float) -> None:
        """Note how long a request waited for a slot."""
        waited = at - request.at
        self._open[LatencyMetric.QUEUE].append(waited)
        if waited > self._targets.queue_seconds:
            # Equal requests are different ones, and the trace keeps each: no other gets its id.
            self._waited_long.add(id(request))

    def first_token(self, request: Request, at: float) -> None:
        """Note a first token."""
        self._open[LatencyMetric.TTFT].append(at - request.at)
        self.first_tokens.append(at - request.at)

    def finished(self, request: Request, first: float, at: float) -> None:
        """Note the end of an answer whose first token came at `first`."""
        between = None
        if request.output_tokens >= SHORTEST_MEAN:
            between = (at - first) / (request.output_tokens - 1)
            self._open[LatencyMetric.ITL].append(between)
        self._open[LatencyMetric.REQUEST].append(at - request.at)
        self._ended += 1
        self._output_tokens += request.output_tokens
        kept = self._targets.kept(first - request.at, between, at - request.at)
        if kept and id(request) not in self._waited_long:
            self.good += 1
        else:
            self.misses.append(request.at)

    def close_second(self, inside: int, running: int, prompt_tokens: int = 0) -> None:
        """End a second in which at last `inside` requests ran or waited, and so many ran.

        `prompt_tokens`: of prompts that are not read yet.
        """
        self._in_flight_seconds += inside
        self._running_seconds += running
        self._seconds.append(
            _Counters(
                self.total,
                self._image_tokens,
                self._text_tokens,
                self.refusals,
                self._ended,
                self._output_tokens,
                self._in_flight_seconds,
                self._running_seconds,
                prompt_tokens,
            )
        )
        for metric, values in self._open.items():
            self._samples[metric].append(values)
            self._open[metric] = []

    # --- what a query answers ---------------------------------------------------------------

    def arrivals(self, at: int, window: int) -> RequestRate:
        """Return rates of arrivals over a window that ends at `at`."""
        low, high = self._ends(at, window)
        refused = high.refused - low.refused
        return RequestRate(
            requests=(high.arrived - low.arrived - refused) / window,
            image_tokens=max(0, high.image_tokens - low.image_tokens) / window,
            text_tokens=max(0, high.text_tokens - low.text_tokens) / window,
            refused=refused / window,
        )

    def mean_output_tokens(self, at: int, window: int) -> float | None:
        """Return generated tokens per finished request."""
        low, high = self._ends(at, window)
        ended = high.ended - low.ended
        return (high.output_tokens - low.output_tokens) / ended if ended else None

    def completed(self, at: int, window: int) -> float:
        """Return finished requests a second."""
        low, high = self._ends(at, window)
        return (high.ended - low.ended) / window

    def in_flight(self, at: int, window: int) -> float:
        """Return the mean number of requests inside."""
        low, high = self._ends(at, window)
        return (high.in_flight_seconds - low.in_flight_seconds) / min(window, max(1, at))

    def running(self, at: int, window: int) -> float:
        """Return the mean number of requests that hold a slot."""
        low, high = self._ends(at, window)
        return (high.running_seconds - low.running_seconds) / min(window, max(1, at))

    def prompt_tokens(self, at: int) -> int:
        """Return the tokens of the prompts that were not read yet."""
        return self._ends(at, 0)[1].prompt_tokens

    def observations(self, metric: LatencyMetric, at: int, window: int) -> int:
        """Return how often a latency was measured."""
        return sum(map(len, self._samples[metric][max(0, at - window) + 1 : at + 1]))

    def latency(self, metric: LatencyMetric, quantile: float, at: int, window: int) -> float | None:
        """Return a quantile of a latency, `None` when nothing was measured."""
        values = sorted(
            value
            for second in self._samples[metric][max(0, at - window) + 1 : at + 1]
            for value in second
        )
        return values[math.ceil(quantile * len(values)) - 1] if values else None

    def _ends(self, at: int, window: int) -> tuple[_Counters, _Counters]:
        last = len(self._seconds) - 1
        return self._seconds[min(last, max(0, at - window))], self._seconds[min(last, max(0, at))]
