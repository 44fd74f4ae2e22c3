"""What a rule is: the same check for the API server and for `validate`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule on one type.

    Attributes:
        cel: the rule as the API server evaluates it; `self` is the object of the type.
        message: what is wrong and what to do.
        holds: the same on the typed object; None when only the API server can decide, because the
            rule compares with the object's former state, or when the type itself enforces it.
        field: field (wire name) the message is about; empty: the object itself.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None
    field: str = ""
