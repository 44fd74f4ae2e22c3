"""What a rule is: CEL and the sentence that a user reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule on one type: `self` is its object, `field` (wire name) what the message is about."""

    cel: str
    message: str
    field: str = ""
