"""Schemas for TensorRT-LLM are passed through, or refused by what would be dropped."""

from typing import Any

import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.triton_server.engine import reported_error
from mm_runtime.backends.trtllm.forms import check_kept
from mm_runtime.gateway.errors import EngineFailedError

TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({}, id="any"),
        pytest.param({"type": "string", "title": "x", "minLength": 2}, id="string"),
        pytest.param({"$ref": "#/$defs/tree", "$defs": {"tree": TREE}}, id="recursion"),
        pytest.param({"type": ["array", "null"], "items": {}, "minItems": 1}, id="types"),
        pytest.param({"properties": {"a": True}, "required": ["a"]}, id="object-without-type"),
        pytest.param({"type": "array", "prefixItems": [{"const": 1}], "items": False}, id="tuple"),
        pytest.param({"type": "string", "enum": ["a"]}, id="typed-values"),
        pytest.param({"anyOf": [{"type": "null"}, {}], "default": None}, id="any-of"),
        pytest.param({"type": "shape"}, id="what-the-server-refuses-itself"),
    ],
)
def test_kept(schema: dict[str, Any]) -> None:
    check_kept(schema, "schema")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        pytest.param({"type": "integer", "minimum": 2}, "at `/` has `minimum`", id="bound"),
        pytest.param({"type": "string", "pattern": "a"}, "`pattern`", id="pattern"),
        pytest.param({"minLength": 2}, "`minLength`", id="no-type"),
        pytest.param({"required": ["a"]}, "`required`", id="required-without-type"),
        pytest.param({"allOf": [{}]}, "`allOf`", id="all"),
        pytest.param({"anyOf": [{}], "type": "object"}, "`type`", id="beside-any-of"),
        pytest.param({"$ref": "#/a", "minimum": 1}, "`minimum`", id="ref"),
        pytest.param({"$ref": "http://x"}, "refers to 'http://x'", id="outside"),
        pytest.param({"type": "object", "required": ["a"]}, "requires 'a'", id="no-property"),
        pytest.param({"items": {"not": {}}}, "at `/items` has `not`", id="inside-of-a-list"),
        pytest.param(
            {"$defs": {"a": {"anyOf": [{"oneOf": []}]}}}, "at `/a/anyOf` has `oneOf`", id="deep"
        ),
        pytest.param(
            {"additionalProperties": {"prefixItems": [{"if": {}}], "type": "array"}},
            "at `/additionalProperties/prefixItems` has `if`",
            id="others",
        ),
    ],
)
def test_refused(schema: dict[str, Any], words: str) -> None:
    """By name and place: the library would answer without it."""
    with pytest.raises(InvalidRequestError) as refusal:
        check_kept(schema, "schema")
    assert words in str(refusal.value)
    assert (refusal.value.param, refusal.value.code) == ("schema", "unsupported_schema")


def test_deep_schemas_take_no_stack() -> None:
    schema: dict[str, Any] = {"minimum": 1}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(InvalidRequestError, match="`minimum`"):
        check_kept(schema, "schema")


MESSAGES = {
    "[02:02:53] /project/cpp/regex_converter.cc:75: Regex parsing error at position 3: Lookahead "
    "is not supported yet.\n": "Regex parsing error at position 3: Lookahead is not supported yet.",
    '[02:02:53] /project/cpp/json_schema_converter.cc:902: Unsupported type "shape"': (
        'Unsupported type "shape"'
    ),
}
"""Of xgrammar 0.1.25."""


@pytest.mark.parametrize("message", MESSAGES)
def test_the_library_s_words_are_passed_on(message: str) -> None:
    """Without the time and the place in its sources; the parameter is named."""
    error = reported_error("ensemble", message, "structured_outputs.regex")

    assert isinstance(error, InvalidRequestError)
    assert error.param == "structured_outputs.regex"
    assert f"refused the form of the answer: {MESSAGES[message]}" in str(error)
    assert "02:02:53" not in str(error)


def test_other_words_are_no_refusal() -> None:
    """What names another place in sources is the server's fault."""
    assert isinstance(reported_error("ensemble", "executor.cc:75: broken"), EngineFailedError)
