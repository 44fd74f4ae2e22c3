"""Pieces of answers on their way from the engine to its sinks, held until the next pass is begun.

A sink wakes a thread that makes a response of a piece, and all threads of the process share one
lock of the interpreter. Pieces given out between two passes hold up the beginning of the next one,
while the GPU computes nothing. With this, and with prompts that are prepared beside a pass, clients
of eight streams had a token each 2.25 ms, and each 3.05 before (1.3 billion parameters, H100).
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

from mm_runtime.reference_engine.sinks import fail
from mm_runtime.serving.generate.request import Piece, Sink

StepObserver = Callable[[Mapping[int, int]], None]

REPORT_INTERVAL_SECONDS = 1.0
"""Prometheus scrapes every 15 s by default, the operator's autoscaler every 5 s at the soonest."""


class StepReports:
    """Steps that were not reported yet: requests of a step -> such steps."""

    def __init__(self) -> None:
        self.observe: StepObserver = lambda _: None
        self._sizes: Counter[int] = Counter()
        self._reported_at = 0.0

    def add(self, requests: int) -> None:
        self._sizes[requests] += 1

    def report(self, *, busy: bool) -> None:
        now = time.monotonic()
        if self._sizes and (not busy or now - self._reported_at >= REPORT_INTERVAL_SECONDS):
            self._reported_at = now
            sizes, self._sizes = self._sizes, Counter()
            try:
                self.observe(sizes)
            except Exception:
                logger.exception("the steps could not be counted; generation continues")


logger = logging.getLogger(__name__)


class Deliveries:
    """Pieces that were not given out yet, in order. One thread uses it."""

    def __init__(self) -> None:
        self.delayed = False
        """Whether pieces wait for `release`."""

        self._held: list[tuple[_HeldSink, Piece]] = []

    def to(self, sink: Sink) -> Sink:
        """Return a sink whose pieces come to this one now or at the next release."""
        return _HeldSink(sink, self)

    def take(self, sink: "_HeldSink", piece: Piece) -> None:
        if self.delayed:
            self._held.append((sink, piece))
            return
        self.release()
        sink.give(piece)

    def release(self) -> None:
        held, self._held = self._held, []
        for sink, piece in held:
            try:
                sink.give(piece)
            except Exception as error:
                logger.exception("a piece could not be given out; its answer ends")
                sink.broken = error
                if piece.finish is not None:  # no later piece can raise it
                    fail(sink, error)


class _HeldSink:
    """A sink of one request, as the engine sees it."""

    def __init__(self, sink: Sink, deliveries: Deliveries) -> None:
        self._sink, self._deliveries = sink, deliveries
        self.broken: Exception | None = None
        """Why a piece could not be given out; the next one raises it."""

    def give(self, piece: Piece) -> None:
        self._sink.send(piece)

    def send(self, piece: Piece) -> None:
        if self.broken is not None:
            raise self.broken
        self._deliveries.take(self, piece)

    def fail(self, error: Exception) -> None:
        self._deliveries.release()
        self._sink.fail(error)

    def cancelled(self) -> None:
        self._deliveries.release()
        self._sink.cancelled()

    def is_cancelled(self) -> bool:
        return self._sink.is_cancelled()
