"""What a rule is: CEL and the sentence that a user reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule on one type.

    Attributes:
        cel: the rule as the API server evaluates it; `self` is the object of the type.
        message: what is wrong and what to do.
        field: field (wire name) the message is about; empty: the object itself.
    """

    cel: str
    message: str
    field: str = ""
