"""The rules of a structural schema on a document, as the API server evaluates them at a create.

Kubernetes' own functions of CEL that rules use (quantities) are added to the language's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mm_api.structural import Schema
from mm_api.v1alpha1 import quantity

if TYPE_CHECKING:
    import cel

_TRANSITION: Final = re.compile(r"\boldSelf\b")
"""A rule that compares with the object's former state: there is none when it is created."""


def broken_rules(
    schema: Schema, document: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield each rule that a document breaks, with the path of the field that it is about."""
    return _below(schema, with_defaults(schema, document), "")


def with_defaults(schema: Schema, value: Any) -> Any:
    """Return a value with the defaults of its schema, those inside a default `{}` included."""
    if "x-kubernetes-preserve-unknown-fields" in schema:
        return dict.fromkeys(value)  # of what has no schema rules see the names alone
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        absent = {name: one["default"] for name, one in fields.items() if "default" in one}
        return {
            name: with_defaults(_field(schema, name), item)
            for name, item in (absent | dict(value)).items()
        }
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), item) for item in value]
    return value


def _field(schema: Schema, name: str) -> Schema:
    found: Schema = schema.get("properties", {}).get(name) or schema.get("additionalProperties", {})
    return found


def _below(schema: Schema, value: Any, path: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    rules = schema.get("x-kubernetes-validations", ())
    context = _context(value) if rules else None
    for rule in rules:
        if not _TRANSITION.search(rule["rule"]) and not _holds(rule["rule"], context):
            yield f"{path}{rule.get('fieldPath', '')}".lstrip("."), rule
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _below(_field(schema, name), item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _below(schema.get("items", {}), item, f"{path}[{index}]")


def _holds(rule: str, context: "cel.Context | None") -> bool:
    program = _program(rule)
    try:
        return program.execute(context) is True
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False  # the API server, too, refuses what it cannot evaluate


@cache
def _program(rule: str) -> "cel.Program":
    import cel  # noqa: PLC0415  (0.2 s: the package imports its command line)

    return cel.compile(rule)


def _context(value: Any) -> "cel.Context":
    import cel  # noqa: PLC0415  (see above)

    return cel.Context(variables={"self": value}, functions=_functions())


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    from cel.stdlib import EXTENSIONS  # noqa: PLC0415  (see above)

    return EXTENSIONS["strings"] | {
        "quantity": str,  # CEL's integers end below 9Ei
        "compareTo": _compare,
        "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    }


def _compare(one: str, other: str) -> int:
    left, right = quantity.number_of(one), quantity.number_of(other)
    return (left > right) - (left < right)
