"""What a field takes, as text, read from the schema that the API server has.

The example is the one of the field's description: what `kubectl explain` shows is what a message
says.
"""

import re
from collections.abc import Sequence
from typing import Final

from mm_api.structural import Schema
from mm_api.v1alpha1.definition import schema

_EXAMPLE: Final = re.compile(r", for example (.+?)\.(?: |$)")

_KINDS: Final = {
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "fields and values",
}


def what_is_expected(place: Sequence[str | int]) -> str:
    """Return what a field takes, with its description's example; empty: its type says nothing."""
    field, description = _field(place)
    kind = _number(field) if field.get("type") == "integer" else _KINDS.get(field.get("type", ""))
    return f"{kind}{_example(description)}" if kind else ""


def example_of(place: Sequence[str | int]) -> str:
    """Return `, for example ...` as a field's description has it; empty: it has none."""
    return _example(_field(place)[1])


def _field(place: Sequence[str | int]) -> tuple[Schema, str]:
    """Return the schema at a place, and its description; an item's is that of its list."""
    field, description = schema(), ""
    for part in place:
        if isinstance(part, int):
            field = field.get("items", {})
        else:
            named = field.get("properties", {}).get(part)
            field = named or field.get("additionalProperties", {})
            description = ""
        description = field.get("description", description)
    return field, description


def _number(field: Schema) -> str:
    if "maximum" in field:
        return f"a whole number from {field.get('minimum', 0)} to {field['maximum']}"
    return f"a whole number of at least {field.get('minimum', 0)}"


def _example(description: str) -> str:
    found = _EXAMPLE.search(description)
    return f", for example {found[1]}" if found else ""
