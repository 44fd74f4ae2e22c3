"""PURE: the form that a request wants of its answer, for servers of TensorRT-LLM."""

import json
from collections.abc import Sequence

from mm_runtime.gateway.api.guided import EBNF, JSON_SCHEMA, REGEX, Guided
from mm_runtime.gateway.api.schema_size import least_size
from mm_runtime.gateway.api.stated_form import (
    AnyObject,
    Choice,
    JsonSchema,
    Pattern,
    StatedForm,
)
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tools import Function
from mm_runtime.gateway.backends.engine import MAX_FORM_BYTES, Form
from mm_runtime.gateway.backends.grammar_schema import ANY_OBJECT, Schema, check_kept
from mm_runtime.gateway.errors import InvalidRequestError

_LAST_CONTROL = 0x1F
_DEFINITIONS = ("$defs", "definitions")


def trtllm_form(stated: StatedForm, guided: Guided) -> Form:
    """Return the form in TensorRT-LLM's terms.

    Raises:
        InvalidRequestError: the server does not keep such a form, or not this one.
    """
    _check_kept(guided, stated.param)
    match stated.form:
        case AnyObject():
            return _bounded(JSON_SCHEMA, json.dumps(ANY_OBJECT), stated.param)
        case JsonSchema(schema):
            _check_schema(schema, stated.inner)
            return Form(JSON_SCHEMA, json.dumps(schema))
        case Pattern(pattern):
            return Form(REGEX, pattern)
        case Choice(texts):
            return _bounded(EBNF, choice_grammar(texts), stated.param)


def trtllm_call(functions: Sequence[Function], dialect: ToolDialect, guided: Guided) -> Form:
    """Return the form of an answer that is a call of one of some functions.

    Raises:
        InvalidRequestError: the model writes more than JSON around a call, which no form of
            TensorRT-LLM has besides a schema; or a schema that is not kept.
    """
    if dialect.opening or dialect.listed:
        raise InvalidRequestError(
            "`tool_choice` with a call that must be made is served on this model's backend of "
            "models that write calls as bare JSON, as Llama 3 does. Send `auto`.",
            param="tool_choice",
            code="unsupported_parameter",
        )
    _check_kept(guided, "tool_choice")
    calls = [_call(function, dialect) for function in functions]
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return _bounded(JSON_SCHEMA, json.dumps(schema), "tools")


def choice_grammar(texts: Sequence[str]) -> str:
    """Return the grammar of answers that are one of some texts, letter for letter."""
    return "root ::= " + " | ".join(f'"{_escaped(text)}"' for text in dict.fromkeys(texts))


def _escaped(text: str) -> str:
    return "".join(
        f"\\{letter}"
        if letter in '"\\'
        else f"\\u{ord(letter):04x}"
        if ord(letter) <= _LAST_CONTROL
        else letter
        for letter in text
    )


def _call(function: Function, dialect: ToolDialect) -> Schema:
    arguments = dict(function.parameters or ANY_OBJECT)
    _check_schema(arguments, "tools")
    # References point at them from the root of a schema.
    definitions = {name: arguments.pop(name) for name in _DEFINITIONS if name in arguments}
    return {
        **definitions,
        "type": "object",
        "properties": {"name": {"const": function.name}, dialect.arguments: arguments},
        "required": ["name", dialect.arguments],
        "additionalProperties": False,
    }


def _check_schema(schema: Schema, param: str) -> None:
    _check_bytes(least_size(schema), param)
    _check_size(json.dumps(schema), param)  # what is larger takes long to look at
    check_kept(schema, param)


def _bounded(kind: str, text: str, param: str) -> Form:
    _check_size(text, param)
    return Form(kind, text)


def _check_kept(guided: Guided, param: str) -> None:
    if guided.missing:
        raise InvalidRequestError(
            f"`{param}` is not served by this model. {guided.missing}",
            param=param,
            code="unsupported_parameter",
        )


def _check_size(text: str, param: str) -> None:
    _check_bytes(len(text.encode(errors="replace")), param)


def _check_bytes(size: int, param: str) -> None:
    if size > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"`{param}` is a form of {size} bytes, at most {MAX_FORM_BYTES} are read.", param=param
        )
