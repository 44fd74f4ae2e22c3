"""Records of `logging` as lines of JSON, the same of every program."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Formats a record as one line: time, level, logger, message, fields, error.

    Ours are the values of `extra={"fields": {...}}`, all of them: there is no list here that a new
    one could be missing from. Libraries have an `extra` of other names, which are not written.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; a traceback is in `error`."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= self.fields(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)

    def fields(self, record: logging.LogRecord) -> Mapping[str, object]:
        return getattr(record, "fields", {})
