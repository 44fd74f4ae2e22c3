"""PURE: a JSON schema in the words that every version of xgrammar keeps.

The library drops keywords that it does not know, with a warning in the server's log, and some
versions end every running request for a schema that they do not understand. So what is not listed
here is refused by name, references are written out, and what older versions misread (types without
`type`, required names without a property) is spelt as all read it.

Source: cpp/json_schema_converter.cc of mlc-ai/xgrammar (`WarnUnsupportedKeywords`, `VisitSchema`),
as far back as 0.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mm_runtime.gateway.errors import InvalidRequestError

Schema = dict[str, Any]

ANY_OBJECT: Schema = {"type": "object", "additionalProperties": True}
"""`json_object`: the library's own grammar of JSON would allow lists, too."""

MAX_PLACES = 2048
"""Of a schema whose references are written out: each becomes a rule of the grammar."""

MAX_DEPTH = 48

_LABELS = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$comment", "$schema", "$defs"),
    }
)
"""Without effect on what is valid; definitions count where they are named."""

_OBJECT = frozenset({"properties", "required", "additionalProperties"})
_ARRAY = frozenset({"items", "prefixItems"})
_HELD = {"type", "enum", "const", "anyOf", "$ref", *_OBJECT, *_ARRAY}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "object": dict,
    "array": list,
}
_REFERENCE = "#/$defs/"


def written_out(schema: Mapping[str, Any], param: str) -> Schema:
    """Return a schema without references and labels.

    Args:
        schema: of a client.
        param: the field of the request that holds it.

    Raises:
        InvalidRequestError: a keyword that is not kept, or a schema that is none; names the place.
    """
    definitions = schema.get("$defs") or {}
    walk = _Walk(param, definitions if isinstance(definitions, dict) else {})
    return walk.written(schema, (), "")


@dataclass(slots=True)
class _Walk:
    param: str
    definitions: Mapping[str, Any]
    places: int = 0

    def written(self, node: Any, inside: tuple[str, ...], at: str) -> Schema:
        """Return one place; `inside`: definitions that it stands in."""
        self.places += 1
        if self.places > MAX_PLACES or at.count("/") > MAX_DEPTH:
            self._refuse(at, f"has more than {MAX_PLACES} places, or {MAX_DEPTH} levels")
        if node is True:
            return {}
        if not isinstance(node, dict):
            self._refuse(at, "must be an object")
        for keyword in node:
            if keyword not in _HELD and keyword not in _LABELS:
                self._refuse(at, f"has `{keyword}`, which TensorRT-LLM's grammars do not keep")
        held = {name: value for name, value in node.items() if name in _HELD}
        if "$ref" in held:
            return self._referred(held, inside, at)
        if "const" in held or "enum" in held:
            return self._values(held, at)
        if "anyOf" in held:
            return self._either(held, inside, at)
        return self._typed(held, inside, at)

    def _referred(self, held: Schema, inside: tuple[str, ...], at: str) -> Schema:
        self._alone(held, "$ref", at)
        target = held["$ref"]
        name = target.removeprefix(_REFERENCE) if isinstance(target, str) else ""
        if target != _REFERENCE + name or name not in self.definitions:
            self._refuse(at, f"refers to {target!r}; expected `{_REFERENCE}NAME` of the schema")
        if name in inside:
            self._refuse(at, f"refers to {name!r} from inside of it, without an end")
        return self.written(self.definitions[name], (*inside, name), at)

    def _values(self, held: Schema, at: str) -> Schema:
        keyword = "const" if "const" in held else "enum"
        self._alone({key: held[key] for key in held if key != "type"}, keyword, at)
        values = [held["const"]] if keyword == "const" else held["enum"]
        if not isinstance(values, list) or not values:
            self._refuse(at, "has an `enum` that is no list of values")
        if "type" in held and not all(_has_type(one, held["type"]) for one in values):
            self._refuse(at, f"has values that are not of its `type`, {held['type']!r}")
        return {keyword: held[keyword]}

    def _either(self, held: Schema, inside: tuple[str, ...], at: str) -> Schema:
        self._alone(held, "anyOf", at)
        options = held["anyOf"]
        if not isinstance(options, list) or not options:
            self._refuse(at, "has an `anyOf` that is no list of schemas")
        return {"anyOf": [self.written(one, inside, f"{at}/anyOf") for one in options]}

    def _typed(self, held: Schema, inside: tuple[str, ...], at: str) -> Schema:
        kind = held.get("type")
        if kind is None:
            meant = [
                name for name, own in (("object", _OBJECT), ("array", _ARRAY)) if own & {*held}
            ]
            if not meant:
                return {}
            (kind, *others) = meant
            if others:
                self._refuse(at, "has keywords of objects and of lists, and no `type`")
        kinds = kind if isinstance(kind, list) else [kind]
        if not kinds or not all(isinstance(one, str) and one in _TYPES for one in kinds):
            self._refuse(at, f"has the `type` {kind!r}; expected one of {', '.join(_TYPES)}")
        if isinstance(kind, list):
            options = [self._typed({**held, "type": one}, inside, at) for one in kind]
            return {"anyOf": options} if len(options) > 1 else options[0]
        if kind == "object":
            return self._object(held, inside, at)
        return self._array(held, inside, at) if kind == "array" else {"type": kind}

    def _object(self, held: Schema, inside: tuple[str, ...], at: str) -> Schema:
        properties, required = held.get("properties", {}), held.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            self._refuse(at, "has `properties` that are no object, or `required` that is no list")
        others = held.get("additionalProperties", None if properties else True)
        rest = (
            others if isinstance(others, bool | None) else self.written(others, inside, f"{at}/*")
        )
        found = {
            name: self.written(one, inside, f"{at}/{name}") for name, one in properties.items()
        }
        for name in required:
            if not isinstance(name, str) or (name not in found and others is False):
                self._refuse(at, f"requires {name!r}, which is none of its `properties`")
            found.setdefault(name, rest if isinstance(rest, dict) else {})
        if unreadable := [name for name in found if not _is_plain(name)]:
            self._refuse(at, f"has the name {unreadable[0]!r}: quotes and backslashes are not read")
        made: Schema = {"type": "object"}
        if found:
            made["properties"] = found
        if required:
            made["required"] = required
        # Without it objects are closed, as upstream's default has it.
        return made if rest is None else {**made, "additionalProperties": rest}

    def _array(self, held: Schema, inside: tuple[str, ...], at: str) -> Schema:
        first, items = held.get("prefixItems", []), held.get("items", True)
        if not isinstance(first, list):
            self._refuse(at, "has `prefixItems` that are no list")
        made: Schema = {"type": "array"}
        if first:
            made["prefixItems"] = [self.written(one, inside, f"{at}/prefixItems") for one in first]
        if items is False and not first:
            self._refuse(at, "is a list that has no items")
        made["items"] = False if items is False else self.written(items, inside, f"{at}/items")
        return made

    def _alone(self, held: Schema, keyword: str, at: str) -> None:
        """Refuse what would be dropped beside a keyword."""
        if others := sorted(set(held) - {keyword}):
            self._refuse(at, f"has `{others[0]}` beside `{keyword}`, which is not kept with it")

    def _refuse(self, at: str, why: str) -> NoReturn:
        raise InvalidRequestError(
            f"`{self.param}`: the schema at `{at or '/'}` {why}.",
            param=self.param,
            code="unsupported_schema",
        )


def _has_type(value: Any, kind: Any) -> bool:
    if isinstance(kind, list):
        return any(_has_type(value, one) for one in kind)
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(kind, str) and kind in _TYPES and isinstance(value, _TYPES[kind])


def _is_plain(name: str) -> bool:
    return name.isprintable() and not {'"', "\\"} & {*name}
