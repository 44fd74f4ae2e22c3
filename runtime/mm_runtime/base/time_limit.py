"""How long a command of a Job may run, counted from its own start.

The kubelet counts a pod's deadline from the moment that the pod is on a node: attaching a volume
and pulling an image are in it. So the command keeps its limit itself.
"""

import logging
import os
import signal
import threading
from collections.abc import Mapping
from typing import Self

from mm_api.contract import TIME_LIMIT_VARIABLE, ExitCode
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

GRACE_SECONDS = 25.0
"""For a command that ends by itself after SIGTERM, as Kubernetes' 30 s are; a build reports within
them which step was running."""


class TimeLimit:
    """Ends the process when the time is over, while the context is open.

    A command that handles SIGTERM gets one first, and `GRACE_SECONDS`. The exit code is
    `ExitCode.TIMED_OUT` in any case.
    """

    def __init__(self, seconds: float | None, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._seconds = seconds
        self._grace_seconds = grace_seconds
        self._ended = threading.Event()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if self._seconds is not None:
            threading.Thread(target=self._watch, name="time limit", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def code(self, code: int) -> int:
        """Return the exit code of a command that returned one: time is over only if it failed."""
        return ExitCode.TIMED_OUT if self._over.is_set() and code != ExitCode.OK else code

    def _watch(self) -> None:
        if self._ended.wait(self._seconds):
            return
        self._over.set()
        log.error("the time limit of %g s is over", self._seconds)
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            os.kill(os.getpid(), signal.SIGTERM)
            if self._ended.wait(self._grace_seconds):
                return
        logging.shutdown()
        os._exit(ExitCode.TIMED_OUT)


def time_limit(environment: Mapping[str, str]) -> TimeLimit:
    """Return the limit that the environment sets; PermanentError: no number of seconds above 0."""
    text = environment.get(TIME_LIMIT_VARIABLE, "")
    if not text:
        return TimeLimit(None)
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise PermanentError(
            f"{TIME_LIMIT_VARIABLE}={text} is not a time limit; expected seconds, 1 or more."
        )
    return TimeLimit(float(text))
