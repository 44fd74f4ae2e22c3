"""Records of `logging` as lines of JSON, the same of every program."""

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Formats a record as one line: time, level, logger, message, fields, error.

    Args:
        fields: names of `extra` that are written where a record has them; libraries have others.
    """

    def __init__(self, *fields: str) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; a traceback is in `error`."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in self._fields if (value := getattr(record, name, None))}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
