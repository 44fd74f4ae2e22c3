"""The two phases in which a running server is waited for: its start and its end."""

import logging
import time

from mm_runtime.base.child_process import ChildProcess
from mm_runtime.base.first_errors import FirstErrors
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.errors import ServerFailedError, ServerKilledError
from mm_runtime.launch.health import State, listens
from mm_runtime.launch.server import Server
from mm_runtime.settings import QUIET_SECONDS

log = logging.getLogger(__name__)

STARTUP_POLL_SECONDS = 0.1
DRAIN_POLL_SECONDS = 0.2
REPORT_SECONDS = 15.0

BY_A_SIGNAL = 128
"""Exit codes above it are a signal's. A server that cannot start ends with one below."""


def wait_until_ready(
    child: ChildProcess, server: Server, stop: StopSignal, errors: FirstErrors, *, seconds: float
) -> bool:
    """Return True once the server is ready, False when a stop signal comes before.

    Raises:
        ServerKilledError: a signal ended it.
        ServerFailedError: it ended, or time is up; carries its first errors.
    """
    began = reported = time.monotonic()
    while not stop.is_set:
        state = server.state()
        waited = time.monotonic() - began
        if state is State.READY:
            log.info("ready after %.1f s", waited)
            return True
        code = child.wait(STARTUP_POLL_SECONDS, stop)
        if code is not None:
            message = f"{server.name} ended with exit code {code} before it was ready"
            message += errors.quoted(child.tail)
            if code > BY_A_SIGNAL:
                raise ServerKilledError(message, code)
            raise ServerFailedError(message)
        if waited > seconds:
            raise ServerFailedError(
                f"{server.name} is {state.value} after {seconds:.0f} s and was ended"
                + errors.quoted(child.tail)
            )
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            log.info("%s for %.0f s", state.value, waited)
    # Others may have found it ready between two of our probes, and have requests in flight.
    return server.state() is State.READY


def drain(
    child: ChildProcess,
    server: Server,
    stop: StopSignal,
    *,
    gateway: tuple[str, int],
    seconds: float,
) -> None:
    """Keep serving until the gateway has gone and nothing has been in flight for a while.

    A server refuses new requests from its SIGTERM on. But the gateway in the same pod may get
    its own SIGTERM at the same time and still sends what it has admitted: it may be fetching a
    image, so a quiet second here does not mean that it has finished. It closes its port last.
    """
    name = stop.received.name if stop.received else "a signal"
    log.info("%s: draining for at most %.0f s", name, seconds)
    began = last_busy = time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        if child.wait(DRAIN_POLL_SECONDS) is not None:
            return
        load = server.in_flight()
        if load is None or load.total or listens(*gateway):
            last_busy = now
        elif now - last_busy >= QUIET_SECONDS:
            log.info("drained in %.1f s", now - began)
            return
    log.warning("requests are still in flight after %.0f s; they are ended", seconds)
