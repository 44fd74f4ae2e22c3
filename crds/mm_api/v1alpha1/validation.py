"""What the API server would say about a document, without an API server.

Structure first (unknown and missing fields, types, bounds); then, when the structure is right, the
rules of the schema. Those that compare with the object's former state are left to the API server.

Examples are those of the fields' descriptions: what `kubectl explain` shows is what a message says.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mm_api.base import ApiModel
from mm_api.structural import Schema
from mm_api.v1alpha1.definition import UNSUPPORTED_REASON, schema
from mm_api.v1alpha1.resource import MultimodalModel
from mm_api.v1alpha1.schema_rules import broken_rules

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
    example = _example(description)
    if not example and isinstance(field.get("default"), str):
        example = f", for example {field['default']}"
    return f"{kind}{example}" if kind else ""


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


_NOT_A_QUANTITY = "{!r} is not a quantity: write a whole number or text such as '1500m' or '8Gi'"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, where, as `spec.gateway.allowedHosts[1]`, and what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def validate(document: Mapping[str, Any], *, to_serve: bool = True) -> list[Problem]:
    """Return every problem of a MultimodalModel, in the order of paths; none means valid.

    `to_serve`: also refuse fields without behaviour yet; planning covers more than serving.
    """
    document = without_nulls(document)
    try:
        MultimodalModel.model_validate(document, strict=True)
    except ValidationError as error:
        return sorted({_structural(document, detail) for detail in error.errors()})
    named = {"name": str(document["metadata"].get("name", ""))}  # all that rules see of metadata
    return sorted(
        {
            Problem(path, rule["message"])
            for path, rule in broken_rules(schema(), {**document, "metadata": named})
            if to_serve or rule.get("reason") != UNSUPPORTED_REASON
        }
    )


def without_nulls(node: Any) -> Any:
    """Return a document as the API server keeps it: a null is an absent field."""
    if isinstance(node, Mapping):
        return {key: without_nulls(value) for key, value in node.items() if value is not None}
    return [without_nulls(item) for item in node] if isinstance(node, list) else node


def _structural(document: Mapping[str, Any], detail: ErrorDetails) -> Problem:
    path = ""
    node: Any = document
    for part in detail["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not isinstance(node, Mapping):
            # What follows names a branch of a union: quantities are the only ones.
            return Problem(path, _NOT_A_QUANTITY.format(detail["input"]))
        else:
            path += f".{part}" if path else part
        node = _child(node, part)
    return Problem(path, _message(detail))


def _child(node: Any, part: str | int) -> Any:
    if isinstance(node, Mapping):
        return node.get(part)
    return node[part] if isinstance(node, list) and isinstance(part, int) else None


def _message(detail: ErrorDetails) -> str:
    given = repr(detail["input"])
    match detail["type"]:
        case "missing":
            text = "required: set it"
        case "extra_forbidden":
            name = str(detail["loc"][-1])
            beside = sorted(_field(detail["loc"][:-1])[0].get("properties", {}))
            close = [one for one in beside if one.startswith(name)]
            close += get_close_matches(name, beside)
            advice = f"did you mean {close[0]}?" if close else "remove it"
            if detail["loc"][:-1] == ("spec", "model", "source"):
                advice = "set huggingFace, persistentVolumeClaim, s3 or archive"
            elif places := sorted({*_places(name)}):
                advice = f"it belongs to {' or '.join(places)}"
            text = f"unknown field: {advice}"
        case "literal_error":
            text = f"{given} is not allowed: use one of {detail['ctx']['expected']}"
        case "value_error":
            text = str(detail["ctx"]["error"])
        case "model_type":
            text = f"{given} is not an object: write fields and values"
        case "int_type" | "string_type" | "bool_type" | "list_type" | "dict_type":
            text = f"{given} has the wrong type: {_expected(detail)}"
        case "greater_than_equal" | "less_than_equal":
            text = f"{given} is not allowed: {_expected(detail)}"
        case _:
            text = f"{given} is not allowed: {_lower(detail['msg'])}{example_of(detail['loc'])}"
    return text


def _expected(detail: ErrorDetails) -> str:
    expected = what_is_expected(detail["loc"])
    return f"write {expected}" if expected else _lower(detail["msg"])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _places(name: str) -> Iterator[str]:
    """Yield the path of each object of the spec that has a field of this name on the wire."""
    waiting: list[tuple[type[ApiModel], str]] = [(MultimodalModel, "")]
    while waiting:
        kind, path = waiting.pop()
        for key, field in kind.model_fields.items():
            own = field.alias or key
            if own == name and path.startswith("spec"):
                yield path
            inner = f"{path}.{own}" if path else own
            waiting.extend((one, inner) for one in _models_in(field.annotation))


def _models_in(annotation: Any) -> Iterator[type[ApiModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
