"""Decoders of images and recordings that outlive their gateway: to start one takes a second.

A gateway of a test gets one that another gateway has left idle, where the limits are the same. One
that was killed, or that a file has ended, is none.
"""

import atexit
from collections import defaultdict

from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import _REFUSALS, DecoderLimits, DecoderProcess
from mm_runtime.gateway.media.decoding.wire import Array, Job

_REFUSALS_OF_JOBS = tuple(_REFUSALS.values())
_idle: dict[DecoderLimits, list["SpareDecoder"]] = defaultdict(list)


class SpareDecoder(DecoderProcess):
    """A decoder that waits for the next gateway once its own has ended."""

    def __init__(self, limits: DecoderLimits) -> None:
        super().__init__(limits)
        self._busy = self._killed = False

    def run(self, job: Job, content: bytes, cpu_seconds: int) -> Array:
        """Return what a job makes of a file."""
        self._busy = True
        try:
            found = super().run(job, content, cpu_seconds)
        except _REFUSALS_OF_JOBS:
            self._busy = False
            raise
        self._busy = False  # after another error it is not used again
        return found

    def kill(self) -> None:
        """End it from another thread."""
        self._killed = True
        super().kill()

    def end(self) -> None:
        """Keep it; end it where it may not be as new."""
        if self._busy or self._killed or not self.is_alive:
            super().end()
        else:
            _idle[self._limits].append(self)

    def end_now(self) -> None:
        """End it."""
        super().end()


def use_spare(decoders: Decoders) -> None:
    """Let decoders of a gateway take processes that others have left."""
    limits, all_of_them, lock = decoders._limits, decoders._all, decoders._lock

    def start() -> DecoderProcess:
        waiting = _idle[limits]
        decoder = waiting.pop() if waiting else SpareDecoder(limits)
        with lock:
            all_of_them.add(decoder)
        return decoder

    decoders._start = start  # type: ignore[method-assign]  # of this object


@atexit.register
def _end_all() -> None:
    for waiting in _idle.values():
        for decoder in waiting:
            decoder.end_now()
