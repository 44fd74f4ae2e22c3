"""Whether a JSON value is of a schema of an OpenAPI document: the keywords that ours uses."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

_KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


@dataclass(frozen=True)
class Document:
    """An OpenAPI document, whose schemas refer to each other."""

    content: Mapping[str, Any]

    def found(self, schema: Schema) -> Schema:
        """Return a schema itself, not a reference to it."""
        while "$ref" in schema:
            at: Any = self.content
            for part in schema["$ref"].removeprefix("#/").split("/"):
                at = at[part]
            schema = at
        return schema

    def branches(self, schema: Schema) -> Iterator[Schema]:
        """Yield a schema and all of which a value of it may be or must be."""
        schema = self.found(schema)
        yield schema
        for keyword in ("anyOf", "oneOf", "allOf"):
            for one in schema.get(keyword, ()):
                yield from self.branches(one)

    def admits(self, schema: Schema, value: object) -> bool:
        """Return whether a value is of a schema.

        Raises:
            ValueError: the schema has a keyword that is not known here.
        """
        schema = self.found(schema)
        return all(self._holds(keyword, schema, value) for keyword in schema)

    def names(self, schema: Schema, param: str, value: object) -> bool:
        """Return whether a parameter, such as `a.b[0]`, is a part of a schema or of a value of it.

        A free object has parts of any name.
        """
        places: list[Schema] = [schema]
        inside = [value]
        for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", param):
            at = int(index) if index else name
            inside = [part for one in inside for part in _at(one, at)]
            places = [
                one
                for place in places
                for branch in self.branches(place)
                for one in _parts(branch, name)
            ]
            if not inside and not places:
                return False
        return True

    def _holds(self, keyword: str, schema: Schema, value: Any) -> bool:
        wanted = schema[keyword]
        if keyword in _LABELS:
            return True
        if keyword in _EXACT:
            return _EXACT[keyword](value, wanted)
        if keyword in _PLAIN:
            kind, holds = _PLAIN[keyword]
            return not isinstance(value, kind) or isinstance(value, bool) or holds(value, wanted)
        inside = {
            "anyOf": lambda: any(self.admits(one, value) for one in wanted),
            "oneOf": lambda: sum(self.admits(one, value) for one in wanted) == 1,
            "allOf": lambda: all(self.admits(one, value) for one in wanted),
            "not": lambda: not self.admits(wanted, value),
            "items": lambda: self._all(wanted, value if isinstance(value, list) else ()),
            "propertyNames": lambda: self._all(wanted, value if isinstance(value, dict) else ()),
            "properties": lambda: all(
                self.admits(one, value[name])
                for name, one in wanted.items()
                if isinstance(value, dict) and name in value
            ),
            "additionalProperties": lambda: self._others(schema, value),
        }
        if keyword not in inside:
            raise ValueError(keyword)
        return inside[keyword]()

    def _all(self, schema: Schema, values: Iterable[object]) -> bool:
        return all(self.admits(schema, one) for one in values)

    def _others(self, schema: Schema, value: object) -> bool:
        """Return whether an object's fields that have no schema of their own may be there."""
        wanted = schema["additionalProperties"]
        if not isinstance(value, dict) or wanted is True:
            return True
        others = [value[name] for name in value if name not in schema.get("properties", ())]
        return not others if wanted is False else self._all(wanted, others)


_LABELS = {
    *("default", "description", "title", "discriminator", "format"),
    *("contentMediaType", "contentSchema"),
}
_EXACT: Mapping[str, Callable[[object, Any], bool]] = {
    "type": lambda value, kind: _is(kind, value),
    "enum": lambda value, wanted: any(_same(one, value) for one in wanted),
    "const": lambda value, wanted: _same(wanted, value),
}
_NUMBER = (int, float)
_PLAIN: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool]]] = {
    "minimum": (_NUMBER, lambda value, bound: bool(value >= bound)),
    "maximum": (_NUMBER, lambda value, bound: bool(value <= bound)),
    "exclusiveMinimum": (_NUMBER, lambda value, bound: bool(value > bound)),
    "exclusiveMaximum": (_NUMBER, lambda value, bound: bool(value < bound)),
    "minLength": (str, lambda value, bound: len(value) >= bound),
    "maxLength": (str, lambda value, bound: len(value) <= bound),
    "pattern": (str, lambda value, pattern: re.search(pattern, value) is not None),
    "minItems": (list, lambda value, bound: len(value) >= bound),
    "maxItems": (list, lambda value, bound: len(value) <= bound),
    "maxProperties": (dict, lambda value, bound: len(value) <= bound),
    "required": (dict, lambda value, names: set(names) <= set(value)),
}
"""Keyword -> of which values it says something, and whether it holds."""


def _is(kind: str | list[str], value: object) -> bool:
    if isinstance(kind, list):
        return any(_is(one, value) for one in kind)
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, bytes):  # the file of a form
        return kind == "string"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _same(one: object, other: object) -> bool:
    """Return whether two values are equal in JSON, where `1` is not `true`."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _at(value: object, at: str | int) -> list[object]:
    """Return the part of a value, if it has it."""
    match value, at:
        case list(), int() if at < len(value):
            return [value[at]]
        case dict(), str() if at in value:
            return [value[at]]
    return []


def _parts(schema: Schema, name: str) -> Iterator[Schema]:
    """Yield what a schema says about a part: of a name, or an item."""
    if not name:
        if "items" in schema:
            yield schema["items"]
        return
    if name in schema.get("properties", {}):
        yield schema["properties"][name]
    more = schema.get("additionalProperties", schema in ({}, True))
    if more is True:
        yield {"additionalProperties": True, "items": {}}
    elif more:
        yield more
