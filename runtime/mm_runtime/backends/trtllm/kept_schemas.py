"""PURE: whether xgrammar keeps all that a JSON schema says.

The library drops what it does not know of a schema, with a warning in the server's log, and answers
without it. What it drops is refused by name; what it knows is passed through, and what is no schema
it refuses itself. Found with xgrammar 0.1.25, which TensorRT-LLM 1.2 has: the oldest one that forms
are sent to.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mm_runtime.gateway.errors import InvalidRequestError

Schema = dict[str, Any]

_LABELS = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$comment", "$schema", "$defs", "definitions"),
    }
)
"""Without effect on what is valid; definitions count where they are named."""

_ALONE = {"$ref": frozenset[str](), "const": {"type"}, "enum": {"type"}, "anyOf": frozenset[str]()}
"""Keyword -> what may stand beside it. The type of a value is not looked at: a value has it."""

_OF_TYPES: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength"}),
}
_MEANT = {"properties": "object", "additionalProperties": "object", "items": "array"}
"""Keywords by which the library knows a type that is not stated."""

_OF_NAMES, _OF_LISTS = ("properties", "$defs", "definitions"), ("prefixItems", "anyOf")


def check_kept(schema: Schema, param: str) -> None:
    """Refuse what would be dropped.

    `param`: the field of the request that holds it.

    Raises:
        InvalidRequestError: names the place and the keyword.
    """
    places: list[tuple[str, Any]] = [("", schema)]
    while places:
        at, node = places.pop()
        if not isinstance(node, dict):
            continue
        if why := _dropped(node):
            raise InvalidRequestError(
                f"`{param}`: the schema at `{at or '/'}` {why}.",
                param=param,
                code="unsupported_schema",
            )
        places += ((f"{at}/{name}", one) for name, one in _inside(node))


def _dropped(node: Schema) -> str:
    """Return what the library would drop of one place; empty: nothing."""
    kept = _kept(node)
    if dropped := sorted({*node} - _LABELS - kept):
        return f"has `{dropped[0]}`, which TensorRT-LLM's grammars do not keep here"
    if not str(node.get("$ref", "#")).startswith("#"):
        return f"refers to {node['$ref']!r}; expected a place of the schema itself, `#/$defs/NAME`"
    properties, required = node.get("properties", {}), node.get("required", [])
    if isinstance(properties, dict) and isinstance(required, list):
        for name in required:
            if not isinstance(name, str) or name not in properties:
                return f"requires {name!r}, which is none of its `properties`"
    return ""


def _kept(node: Schema) -> frozenset[str]:
    for keyword, beside in _ALONE.items():
        if keyword in node:
            return frozenset({keyword, *beside})
    meant = next((kind for name, kind in _MEANT.items() if name in node), "")
    stated: Any = node.get("type", meant)
    kinds = stated if isinstance(stated, list) else [stated]
    return frozenset({"type"}).union(*(_OF_TYPES.get(str(kind), frozenset()) for kind in kinds))


def _inside(node: Schema) -> Iterator[tuple[str, Any]]:
    """Yield the schemas inside of one, with their places."""
    for keyword in _OF_NAMES:
        named = node.get(keyword)
        yield from named.items() if isinstance(named, dict) else ()
    for keyword in _OF_LISTS:
        several = node.get(keyword)
        yield from ((keyword, one) for one in (several if isinstance(several, list) else ()))
    yield from ((name, node[name]) for name in ("items", "additionalProperties") if name in node)
