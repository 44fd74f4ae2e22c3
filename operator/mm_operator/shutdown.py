"""What SIGTERM and SIGINT do: the first requests the end, the second or a deadline brings it.

A thread waits for them. A handler of the event loop would wait for a loop that may stand still, and
kopf puts handlers of its own in the place of others'.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

_LOG = logging.getLogger(__name__)

SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})

DEADLINE_SECONDS = 8.0
"""From the signal to the end of the process, in whatever state it is: below 10 s, and the chart
grants 15 before the kubelet kills. A stop in order takes a second where the API server answers, and
four where it hangs, until giving the Lease back is given up."""

_LOG_SECONDS = 1.0
"""A log that is not read blocks its writer; the end does not wait for it."""


def hold_signals() -> None:
    """Keep the signals waiting for the thread, in this and every thread started later.

    Called before any thread is started: one that does not hold them would end the process.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def stop_on_signal(stop: Callable[[], object], *, seconds: float = DEADLINE_SECONDS) -> None:
    """Start the thread that calls `stop` at the first signal, and exits with 1 `seconds` later."""

    def wait() -> None:
        first = signal.sigwait(SIGNALS)
        stop()
        second = signal.sigtimedwait(SIGNALS, seconds)
        name = signal.Signals(first).name
        _leave("a second signal" if second else f"not stopped {seconds:g} s after {name}")

    threading.Thread(target=wait, name="signals", daemon=True).start()


def leave_late(*, seconds: float = DEADLINE_SECONDS) -> None:
    """Bound a stop that no signal requested: a part failed, and the others may not end."""

    def wait() -> None:
        time.sleep(seconds)
        _leave(f"not stopped {seconds:g} s after a part failed")

    threading.Thread(target=wait, name="deadline", daemon=True).start()


def _leave(why: str) -> None:
    logging_thread = threading.Thread(
        target=_LOG.warning, args=("%s: leaving without clean-up", why), daemon=True
    )
    logging_thread.start()
    logging_thread.join(_LOG_SECONDS)
    os._exit(1)
