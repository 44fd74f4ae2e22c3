"""PURE: what the OpenAPI document says of fields that depend on each other, as JSON Schema.

The validators beside the wire types check the same, with messages of their own; a test compares
both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Rule = Mapping[str, Any]

NULL: Rule = {"type": "null"}
NOT_TRUE: Rule = {"not": {"const": True}}
TRUE: Rule = {"const": True}


def any_of(*branches: Rule) -> Rule:
    """Return a rule of which one branch holds at the least."""
    return {"anyOf": list(branches)}


def fields(present: Mapping[str, Rule] | None = None, **others: Rule) -> Rule:
    """Return a branch: fields that must be there, and what others are, where they are there."""
    there = present or {}
    rule: dict[str, Any] = {"properties": {**there, **others}}
    return {**rule, "required": list(there)} if there else rule


def absent(names: Sequence[str]) -> dict[str, Rule]:
    """Return what fields are that have no value."""
    return dict.fromkeys(names, NULL)


_ASSISTANTS = ["refusal", "thinking", "redacted_thinking", "reasoning"]
NO_REFUSAL: Rule = {"items": {"properties": {"type": {"not": {"enum": _ASSISTANTS}}}}}
TEXT = any_of(NULL, fields({"type": {"const": "text"}}))
"""Rule of a format that is none: null, or any text."""
