"""From pydantic's JSON schema to the structural schema that a CustomResourceDefinition takes.

The API server wants no references, no `type` inside `anyOf`, no `additionalProperties` beside
`properties`; it prunes unknown fields by itself. Rules (CEL) are handed in by the caller.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from mm_api.base import ApiModel

Schema = dict[str, Any]

RulesOf = Callable[[type[ApiModel], str], list[dict[str, str]]]
"""From a type and its path in the resource to the rules that stand there."""

_KEPT: Final = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
"""Keys that mean the same in both. Everything else is translated below or left out on purpose."""


_QUOTE: Final = '"'


class UnknownSchemaError(TypeError):
    """The JSON schema uses something that has no structural form."""


class _Converter:
    """Converts one root type; holds its definitions and where rules come from."""

    def __init__(self, root: type[ApiModel], rules_of: RulesOf) -> None:
        self._root, self._schema = root, root.model_json_schema(by_alias=True)
        self._definitions: Mapping[str, Schema] = self._schema.get("$defs", {})
        self._types = {kind.__name__: kind for kind in _types_below(root)}
        self._rules_of = rules_of

    def named(self, name: str, path: str) -> Schema:
        return self._object(self._definitions[name], self._types[name], path)

    def root(self) -> Schema:
        return self._object(self._schema, self._root, "")

    def _object(self, schema: Schema, kind: type[ApiModel], path: str) -> Schema:
        result: Schema = {"description": schema["description"], "type": "object"}
        if "required" in schema:
            result["required"] = schema["required"]
        result["properties"] = {
            name: self._value(value, f"{path}.{name}" if path else name)
            for name, value in schema["properties"].items()
        }
        rules = self._rules_of(kind, path)
        if rules:
            result["x-kubernetes-validations"] = rules
        return result

    def _value(self, schema: Schema, path: str) -> Schema:
        schema = _without_null(schema)
        if "$ref" in schema:
            result = self.named(schema["$ref"].rsplit("/", 1)[-1], path)
            result["description"] = schema.get("description", result["description"])
            if schema.get("default") is not None:
                # The defaults of the parts fill it: one place says each default.
                result["default"] = {}
            return result
        result = {key: schema[key] for key in _KEPT if key in schema} | self._shape(schema, path)
        default = schema.get("default")
        if default not in (None, "", [], {}):  # an empty value means the same as an absent one
            result["default"] = default
            # `kubectl explain` shows no defaults by itself.
            result["description"] += f" Default: {json.dumps(default).strip(_QUOTE)}."
        return result

    def _shape(self, schema: Schema, path: str) -> Schema:
        """Return the keys that say what a value looks like, where the two kinds differ."""
        match schema:
            case {"const": value}:
                return {"type": "string", "enum": [value]}
            case {"anyOf": [{"type": "integer"}, {"type": "string"}]}:
                return {"x-kubernetes-int-or-string": True}
            case {"type": "array", "items": items}:
                return {"items": self._value(items, f"{path}[]")}
            case {"type": "object", "additionalProperties": True}:
                return {"x-kubernetes-preserve-unknown-fields": True}
            case {"type": "object", "additionalProperties": items}:
                return {"additionalProperties": self._value(items, f"{path}.*")}
            case {"type": "string" | "integer" | "number" | "boolean"}:
                return {}
            case _:
                raise UnknownSchemaError(f"{path}: {schema} has no structural form")


def _without_null(schema: Schema) -> Schema:
    """Return an optional value's schema without its null branch: absent is the only "no"."""
    branches = [branch for branch in schema.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == len(schema.get("anyOf", ())):
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**rest, "anyOf": branches} if len(branches) > 1 else {**branches[0], **rest}


def _types_below(root: type[ApiModel]) -> set[type[ApiModel]]:
    """Return every type that a type's fields use, itself included."""
    found: set[type[ApiModel]] = set()
    waiting: list[Any] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, type) and issubclass(item, ApiModel):
            if item not in found:
                found.add(item)
                waiting.extend(field.annotation for field in item.model_fields.values())
        else:
            waiting.extend(getattr(item, "__args__", ()))
    return found


def structural(root: type[ApiModel], rules_of: RulesOf) -> Schema:
    """Return a type's structural schema, all inlined; UnknownSchemaError: a field has none."""
    return _Converter(root, rules_of).root()
