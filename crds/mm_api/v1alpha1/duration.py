"""Durations as people write them: `500ms`, `90s`, `2h`, `1h30m`."""

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, Field

PATTERN: Final = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$"
"""Each unit at most once, the largest first: a subset of what Go and Prometheus read."""

MAX_LENGTH: Final = 32

_PARTS: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)


def parse(text: str) -> timedelta:
    """Return the duration a text means.

    Raises:
        ValueError: the text is not a duration, or it is zero.
    """
    match = _PARTS.fullmatch(text)
    hours, minutes, seconds, milliseconds = (
        (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    )
    duration = timedelta(
        hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
    )
    if not duration:
        message = f"{text!r} is not a duration above zero: write for example 500ms, 90s, 2h or 1h30m"
        raise ValueError(message)
    return duration


def _checked(text: str) -> str:
    parse(text)
    return text


Duration = Annotated[
    str,
    Field(pattern=PATTERN, min_length=2, max_length=MAX_LENGTH),
    AfterValidator(_checked),
]
"""A duration above zero; read it with `parse`."""
