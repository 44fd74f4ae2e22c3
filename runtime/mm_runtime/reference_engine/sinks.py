"""What the engine asks clients and says to them; what goes wrong there is one client's alone.

A sink belongs to a request: an exception of it must neither fail a step nor reach other answers.
"""

import logging

from mm_runtime.serving.generate.request import Sink

logger = logging.getLogger(__name__)


def is_cancelled(sink: Sink) -> bool:
    """Return whether nobody waits for the answer; a client that cannot be asked is still there."""
    try:
        return sink.is_cancelled()
    except Exception:
        logger.exception("whether a client has gone is unknown: its request goes on")
        return False


def cancel(sink: Sink) -> None:
    """End the request of a client that has gone."""
    try:
        sink.cancelled()
    except Exception:
        logger.exception("a cancelled request could not be closed")


def fail(sink: Sink, error: Exception) -> None:
    """End a request with an error."""
    try:
        sink.fail(error)
    except Exception:
        logger.exception("an error could not be handed to its client")
