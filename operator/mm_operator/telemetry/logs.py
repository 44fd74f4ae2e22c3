"""JSON lines on standard error, one per record, each with the key of the object it is about.

Logs are for people who run the operator. What a user must know is a condition.
"""

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from mm_operator.status.story import story

current_key: ContextVar[str] = ContextVar("current_key", default="")
"""`namespace/name` of the model that the current task works on; empty outside a reconcile."""

STORY = logging.getLogger("mm_operator.status.story")
"""What became of models, one line for each begin and end; see `mm_operator.status.story`."""

_QUIET = ("kopf", "kubernetes", "aiohttp", "asyncio")
"""Libraries that tell at level info what our own lines tell already."""


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message, key, event, error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if key := current_key.get():
            line["key"] = key
        if event := getattr(record, "event", None):
            line["event"] = event
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def tell_story(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Log what happened between two statuses of the model that the current task works on."""
    for line in story(before, after):
        STORY.info("%s", line.text, extra={"event": line.event})


def set_up_logs(level: str) -> None:
    """Send every record of `level` and above to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
