"""Cron lines: five fields, each checked by its numbers and names, without the time they name.

`PATTERN` and the order of ranges are what the API server can check. A day that no month has (30
February) is left to those who look for the next time.
"""

from typing import Final

DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS: Final = (
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN"),
    *("JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)

_STEP: Final = "(/0*[1-9][0-9]*)?"


def _field(number: str, names: tuple[str, ...] = (), special: str = "") -> str:
    one = f"({'|'.join((f'0*({number})', *names))})"
    term = f"(([*]|{one}(-{one})?){_STEP}{special})"
    return f"{term}(,{term})*"


_FIELDS: Final = (
    _field("[0-9]|[1-5][0-9]"),
    _field("[0-9]|1[0-9]|2[0-3]"),
    _field("[1-9]|[12][0-9]|3[01]", special=f"|LW?{_STEP}"),
    _field("[1-9]|1[0-2]", MONTHS),
    _field("[0-7]", DAYS, special="|0*[0-7]L"),
)

PATTERN: Final = f"(?i)^{' '.join(_FIELDS)}$"
"""Minute, hour, day of month, month, day of week; as Go's RE2 and Rust's regex read it."""

_RANGE: Final = "[0-9]+-[0-9]+"

_NUMBERS: Final = {name: number for number, name in enumerate(DAYS)} | {
    name: number for number, name in enumerate(MONTHS, start=1)
}

ORDERED_CEL: Final = (
    "self.start.upperAscii()"
    + "".join(f".replace('{name}', '{number}')" for name, number in _NUMBERS.items())
    + f".findAll('{_RANGE}').all(one, int(one.split('-')[0]) <= int(one.split('-')[1]))"
)
"""Every range of `start` goes upward."""
