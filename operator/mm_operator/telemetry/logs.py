"""JSON lines on standard error, one per record, each with the key of the object it is about.

Logs are for people who run the operator. What a user must know is a condition.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar

from mm_api.json_logs import JsonFormatter

current_key: ContextVar[str] = ContextVar("current_key", default="")
"""`namespace/name` of the model that the current task works on; empty outside a reconcile."""

_QUIET = ("kopf", "kubernetes", "aiohttp", "asyncio")
"""Libraries that repeat at level info what our own lines say."""


class KeyedFormatter(JsonFormatter):
    """Writes the key of the task that logs, too."""

    def fields(self, record: logging.LogRecord) -> Mapping[str, object]:
        key = current_key.get()
        return {**({"key": key} if key else {}), **super().fields(record)}


def set_up_logs(level: str) -> None:
    """Send every record of `level` and above to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(KeyedFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
