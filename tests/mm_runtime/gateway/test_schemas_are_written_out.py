"""Schemas for the grammars of TensorRT-LLM are written as every version keeps them."""

from typing import Any

import pytest

from mm_runtime.gateway.backends.grammar_schema import MAX_PLACES, written_out
from mm_runtime.gateway.errors import InvalidRequestError


def _doubling(levels: int) -> dict[str, Any]:
    """Return a schema whose references are twice as many on each level."""
    definitions: dict[str, Any] = {
        f"d{at}": {
            "type": "object",
            "properties": {key: {"$ref": f"#/$defs/d{at + 1}"} for key in "ab"},
        }
        for at in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, {}, id="any"),
        pytest.param(
            {"type": "string", "title": "x", "default": 1}, {"type": "string"}, id="labels"
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/b"}},
                "$defs": {"b": {"const": 1}},
            },
            {"type": "object", "properties": {"a": {"const": 1}}},
            id="reference",
        ),
        pytest.param(
            {"type": ["string", "null"]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            id="types",
        ),
        pytest.param(
            {"properties": {"a": True}, "required": ["a"]},
            {"type": "object", "properties": {"a": {}}, "required": ["a"]},
            id="object-without-type",
        ),
        pytest.param(
            {"type": "object", "required": ["a"], "additionalProperties": {"type": "null"}},
            {
                "type": "object",
                "properties": {"a": {"type": "null"}},
                "required": ["a"],
                "additionalProperties": {"type": "null"},
            },
            id="required-without-property",
        ),
        pytest.param(
            {"type": "object"}, {"type": "object", "additionalProperties": True}, id="bare-object"
        ),
        pytest.param({"type": "array"}, {"type": "array", "items": {}}, id="bare-list"),
        pytest.param(
            {"type": "array", "prefixItems": [{"const": 1}], "items": False},
            {"type": "array", "prefixItems": [{"const": 1}], "items": False},
            id="tuple",
        ),
        pytest.param({"type": "string", "enum": ["a"]}, {"enum": ["a"]}, id="typed-values"),
        pytest.param({"type": "integer", "const": 1.0}, {"const": 1.0}, id="integer-value"),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
            id="either",
        ),
    ],
)
def test_written(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """What is kept stays, and what versions read differently is spelt out."""
    assert written_out(schema, "schema") == expected


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        pytest.param({"type": "string", "minLength": 2}, "`minLength`", id="length"),
        pytest.param({"allOf": [{}]}, "`allOf`", id="all"),
        pytest.param({"type": "shape"}, "the `type` 'shape'", id="type"),
        pytest.param({"type": [["string"]]}, "the `type` [['string']]", id="nested-types"),
        pytest.param({"type": []}, "the `type` []", id="no-types"),
        pytest.param({"$ref": "http://x"}, "refers to 'http://x'", id="outside"),
        pytest.param({"$ref": "#/$defs/a"}, "refers to '#/$defs/a'", id="nowhere"),
        pytest.param(
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "without an end",
            id="itself",
        ),
        pytest.param(
            {
                "$ref": "#/$defs/tree",
                "$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}}},
            },
            "at `/left` refers to 'tree' from inside",
            id="recursion",
        ),
        pytest.param(_doubling(12), f"more than {MAX_PLACES} places", id="doubling"),
        pytest.param({"anyOf": [{}], "type": "object"}, "`type` beside `anyOf`", id="beside"),
        pytest.param({"anyOf": []}, "`anyOf` that is no list", id="no-options"),
        pytest.param({"enum": []}, "`enum` that is no list", id="no-values"),
        pytest.param({"enum": [True], "type": "integer"}, "not of its `type`", id="values"),
        pytest.param(
            {"type": "object", "required": ["a"], "additionalProperties": False},
            "requires 'a'",
            id="closed",
        ),
        pytest.param({"type": "object", "required": [{}]}, "requires {}", id="no-name"),
        pytest.param({"type": "object", "properties": {'a"': {}}}, "quotes", id="quote"),
        pytest.param({"type": "object", "properties": []}, "no object", id="no-properties"),
        pytest.param({"type": "array", "items": False}, "no items", id="no-items"),
        pytest.param({"type": "array", "items": []}, "must be an object", id="old-tuple"),
        pytest.param({"properties": {}, "items": {}}, "no `type`", id="object-or-list"),
        pytest.param({"$defs": [], "$ref": "#/$defs/"}, "refers to", id="no-definitions"),
    ],
)
def test_refused(schema: dict[str, Any], words: str) -> None:
    """By name and place."""
    with pytest.raises(InvalidRequestError) as refusal:
        written_out(schema, "schema")
    assert words in str(refusal.value)
    assert (refusal.value.param, refusal.value.code) == ("schema", "unsupported_schema")


def test_deep_schemas_are_refused() -> None:
    """Before Python's own stack ends."""
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"type": "array", "items": schema}
    with pytest.raises(InvalidRequestError, match="levels"):
        written_out(schema, "schema")
