"""SIGTERM and SIGINT as something that can be waited for beside a child's end."""

import os
import select
import signal
from types import FrameType
from typing import Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """Set by the first SIGTERM or SIGINT while the context is open; handlers are restored after.

    A signal handler that raised could hit between a fork and its bookkeeping. So the handler only
    writes into a pipe, which every wait polls too.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous: list[tuple[signal.Signals, object]] = []

    def __enter__(self) -> Self:
        self._previous = [(number, signal.signal(number, self._handle)) for number in SIGNALS]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous:
            signal.signal(number, handler)  # type: ignore[arg-type]  # signal()'s own
        os.close(self._read)
        os.close(self._write)

    @property
    def is_set(self) -> bool:
        return self.received is not None

    @property
    def fd(self) -> int:
        return self._read

    def wait(self, seconds: float) -> bool:
        if not self.is_set:
            select.select([self._read], [], [], seconds)
        return self.is_set

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
            os.write(self._write, b"!")
