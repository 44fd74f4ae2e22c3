"""Kubernetes quantities: numbers with a suffix, such as `8Gi` or `500m`, and what they mean."""

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StrictInt, StrictStr

PATTERN: Final = r"^[0-9]+(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""The subset of Kubernetes' grammar that this API takes: no sign, no exponent."""

MAX_LENGTH: Final = 32
"""Longer than any sensible quantity; keeps the cost of CEL rules bounded."""

_SUFFIXES: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{name: Decimal(1000) ** power for power, name in enumerate("kMGTPE", start=1)},
    **{f"{name}i": Decimal(1024) ** power for power, name in enumerate("KMGTPE", start=1)},
}
_PARTS: Final = re.compile(r"([0-9.]+)([a-zA-Z]*)")


def number_of(quantity: int | str) -> Decimal:
    """Return a quantity exactly, in bytes or cores; ValueError: it does not match `PATTERN`."""
    text = str(quantity)
    match = _PARTS.fullmatch(text) if re.fullmatch(PATTERN, text, re.ASCII) else None
    if match is None or len(text) > MAX_LENGTH:
        raise ValueError(
            f"{text[:MAX_LENGTH]!r} is not a quantity: write a number with an optional suffix "
            "(m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei), for example 8Gi"
        )
    return Decimal(match[1]) * _SUFFIXES[match[2]]


def bytes_of(quantity: int | str) -> int:
    """Return a quantity in bytes, rounded up as Kubernetes does; ValueError as `number_of`."""
    return int(number_of(quantity).to_integral_value("ROUND_CEILING"))


def _checked(quantity: int | str) -> int | str:
    number_of(quantity)
    return quantity


Quantity = Annotated[
    StrictInt | StrictStr,
    AfterValidator(_checked),
    Field(json_schema_extra={"pattern": PATTERN, "maxLength": MAX_LENGTH, "minimum": 0}),
]
"""An integer or text such as `8Gi`; read it with `bytes_of` or `number_of`."""


AutoOrQuantity = Annotated[
    StrictInt | StrictStr,
    AfterValidator(lambda quantity: quantity if quantity == "Auto" else _checked(quantity)),
    Field(
        json_schema_extra={
            "pattern": f"^Auto$|{PATTERN}",
            "maxLength": MAX_LENGTH,
            "minimum": 0,
        }
    ),
]
"""`Auto` (the planner computes it) or a quantity."""
