"""Durations as people write them: `500ms`, `90s`, `2h`, `1h30m`."""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Final

from pydantic import AfterValidator, Field

PATTERN: Final = r"^([1-9][0-9]{0,5}h)?([1-9][0-9]{0,5}m)?([1-9][0-9]{0,5}s)?([1-9][0-9]{0,5}ms)?$"
"""Each unit at most once, the largest first, never zero: what Go and Prometheus both read."""

MIN_LENGTH: Final = 2
"""The pattern's parts are all optional: the length refuses the empty text."""

MAX_LENGTH: Final = 32

DRAIN_MARGIN: Final = timedelta(seconds=2)
"""A pod drains for this much longer than a request may take: time to write the last answer."""

_REMEMBERED: Final = 256
"""A reconcile reads ten of them, and a fleet has few different ones."""

_PARTS: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)


@lru_cache(maxsize=_REMEMBERED)
def parse(text: str) -> timedelta:
    """Return the duration a text means. ValueError: the text is not a duration above zero."""
    match = _PARTS.fullmatch(text)
    if match is None or not text or not re.fullmatch(PATTERN, text, re.ASCII):
        raise ValueError(
            f"{text[:MAX_LENGTH]!r} is not a duration above zero: write for example 500ms, 90s, "
            "2h or 1h30m"
        )
    hours, minutes, seconds, milliseconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)


def written(seconds: float) -> str:
    """Return a time as people write it: `5ms`, `30s`."""
    return f"{seconds:.0f}s" if seconds >= 1 else f"{seconds * 1000:.0f}ms"


def _checked(text: str) -> str:
    parse(text)
    return text


Duration = Annotated[
    str,
    AfterValidator(_checked),
    Field(
        json_schema_extra={
            "pattern": PATTERN,
            "minLength": MIN_LENGTH,
            "maxLength": MAX_LENGTH,
        }
    ),
]
"""A duration above zero; read it with `parse`."""
