"""Whether a JSON value is of a schema of an OpenAPI document, and which parts it has."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator, TypeChecker, validators

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Document:
    """An OpenAPI document, whose schemas refer to each other."""

    content: Mapping[str, Any]

    def found(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            at: Any = self.content
            for part in schema["$ref"].removeprefix("#/").split("/"):
                at = at[part]
            schema = at
        return schema

    def branches(self, schema: Schema) -> Iterator[Schema]:
        schema = self.found(schema)
        yield schema
        for keyword in ("anyOf", "oneOf", "allOf"):
            for one in schema.get(keyword, ()):
                yield from self.branches(one)

    def admits(self, schema: Schema, value: object) -> bool:
        # References begin at the document's root.
        rooted = {**schema, "components": self.content.get("components", {})}
        return bool(_Validator(rooted).is_valid(value))

    def names(self, schema: Schema, param: str, value: object) -> bool:
        """Return whether a parameter, such as `a.b[0]`, is a part of a schema or of a value of it.

        A free object has parts of any name.
        """
        places: list[Schema] = [schema]
        inside = [value]
        for at in steps_of(param):
            inside = [part for one in inside for part in parts_at(one, at)]
            places = [
                one
                for place in places
                for branch in self.branches(place)
                for one in _parts(branch, at)
            ]
            if not inside and not places:
                return False
        return True


def _is_number(_: TypeChecker, value: object) -> bool:
    # JSON has neither NaN nor infinities.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(cast("float", value))


def _is_string(_: TypeChecker, value: object) -> bool:
    return isinstance(value, str | bytes)  # bytes: the file of a form


_Validator = validators.extend(  # type: ignore[no-untyped-call]  # the stubs lack it
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"number": _is_number, "string": _is_string}
    ),
)


def steps_of(param: str) -> list[str | int]:
    """Return the names and places of a parameter such as `a.b[0]`."""
    found = re.findall(r"([^.\[\]]+)|\[(\d+)\]", param)
    return [int(index) if index else name for name, index in found]


def parts_at(value: object, at: str | int) -> list[object]:
    match value, at:
        case list(), int() if at < len(value):
            return [value[at]]
        case dict(), str() if at in value:
            return [value[at]]
    return []


def _parts(schema: Schema, name: str | int) -> Iterator[Schema]:
    if isinstance(name, int):
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
