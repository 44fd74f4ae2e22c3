"""PURE: the form that a request wants of its answer, for servers of TensorRT-LLM."""

import json
from collections.abc import Sequence

from mm_runtime.gateway.api.guided import EBNF, JSON_SCHEMA, REGEX, Guided
from mm_runtime.gateway.api.openai import SampledRequest
from mm_runtime.gateway.api.response_format import JsonFormat, SchemaFormat, TagFormat
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tools import Function
from mm_runtime.gateway.backends.engine import MAX_FORM_BYTES, Form
from mm_runtime.gateway.backends.grammar_regex import plain_pattern
from mm_runtime.gateway.backends.grammar_schema import ANY_OBJECT, Schema, written_out
from mm_runtime.gateway.errors import InvalidRequestError

_SCHEMA = "response_format.json_schema.schema"
_LAST_CONTROL = 0x1F


def trtllm_form(request: SampledRequest, guided: Guided) -> Form | None:
    """Return the form in TensorRT-LLM's terms; None: any text, or that of a call.

    Raises:
        InvalidRequestError: the server does not keep such a form, or not this one.
    """
    match request.response_format:
        case TagFormat():
            raise InvalidRequestError(
                "`response_format` of type `structural_tag` is served by backend Reference only. "
                "Leave it out.",
                param="response_format",
                code="unsupported_parameter",
            )
        case JsonFormat():
            _check_kind(JSON_SCHEMA, guided, "response_format")
            return _bounded(JSON_SCHEMA, json.dumps(ANY_OBJECT), "response_format")
        case SchemaFormat(json_schema=named):
            _check_kind(JSON_SCHEMA, guided, "response_format")
            schema = _written(named.json_schema or ANY_OBJECT, _SCHEMA)
            return _bounded(JSON_SCHEMA, json.dumps(schema), _SCHEMA)
    if request.guided_regex is not None:
        _check_kind(REGEX, guided, "guided_regex")
        return _bounded(REGEX, plain_pattern(request.guided_regex, "guided_regex"), "guided_regex")
    if request.guided_choice is not None:
        _check_kind(EBNF, guided, "guided_choice")
        return _bounded(EBNF, choice_grammar(request.guided_choice), "guided_choice")
    return None


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
    _check_kind(JSON_SCHEMA, guided, "tool_choice")
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
    arguments = _written(function.parameters or ANY_OBJECT, "tools")
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, dialect.arguments: arguments},
        "required": ["name", dialect.arguments],
        "additionalProperties": False,
    }


def _written(schema: Schema, param: str) -> Schema:
    _check_size(json.dumps(schema), param)  # what is larger takes long to look at
    return written_out(schema, param)


def _bounded(kind: str, text: str, param: str) -> Form:
    _check_size(text, param)
    return Form(kind, text)


def _check_kind(kind: str, guided: Guided, param: str) -> None:
    if kind not in guided.kinds:
        raise InvalidRequestError(
            f"`{param}` is not served by this model. {guided.missing}",
            param=param,
            code="unsupported_parameter",
        )


def _check_size(text: str, param: str) -> None:
    if (size := len(text.encode(errors="replace"))) > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"`{param}` is a form of {size} bytes, at most {MAX_FORM_BYTES} are read.", param=param
        )
