"""Calls of the engine into the sinks of its requests; a failure there affects one client only.

A sink belongs to a request: an exception of it must neither fail a step nor reach other answers.
"""

import logging

from mm_runtime.serving.generate.request import Sink

logger = logging.getLogger(__name__)


def is_cancelled(sink: Sink) -> bool:
    """Return whether the client has cancelled; when that is unknown the request continues."""
    try:
        return sink.is_cancelled()
    except Exception:
        logger.exception("whether a request was cancelled is unknown: it continues")
        return False


def cancel(sink: Sink) -> None:
    try:
        sink.cancelled()
    except Exception:
        logger.exception("a cancelled request could not be closed")


def fail(sink: Sink, error: Exception) -> None:
    try:
        sink.fail(error)
    except Exception:
        logger.exception("an error could not be handed to its client")
