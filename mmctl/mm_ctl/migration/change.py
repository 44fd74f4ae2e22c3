"""One field that differs between two specs, and fields of a document by their dotted paths."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Effect(StrEnum):
    """What a change means for those who use the model."""

    LOST = "lost"
    """Something that requests could have."""
    GAINED = "gained"
    LIMIT = "limit"
    QUANTIZATION = "quantization"
    BUILD = "build"
    """How the engine is made; answers are not concerned."""
    SERVER = "server"
    """How the pod works; answers are not concerned."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        path: the field below `spec`, by its names on the wire.
        before: its value; None: it was absent.
        after: its value; None: it is removed.
        effect: what that means.
        why: as a sentence.
    """

    path: str
    before: Any
    after: Any
    effect: Effect
    why: str


def value_at(spec: Mapping[str, Any], path: str) -> Any:
    """Return the value of a field; None: it is absent."""
    value: Any = spec
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def with_value(spec: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the spec with one field set; None removes it, and what is empty then."""
    first, _, rest = path.partition(".")
    below = spec.get(first)
    inner = value
    if rest:
        inner = with_value(below if isinstance(below, Mapping) else {}, rest, value) or None
    if inner is None:
        return {name: kept for name, kept in spec.items() if name != first}
    return {**spec, first: inner}


def applied(spec: Mapping[str, Any], changes: tuple[Change, ...]) -> dict[str, Any]:
    """Return the spec with all changes."""
    result = dict(spec)
    for change in changes:
        result = with_value(result, change.path, change.after)
    return result
