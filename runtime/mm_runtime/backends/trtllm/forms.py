"""PURE: the form that a request wants of its answer, for servers of TensorRT-LLM."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mm_api.documents.trtllm_serve import FORMS_SINCE, keeps_forms
from mm_runtime.backends.trtllm.kept_schemas import Schema, check_kept
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
from mm_runtime.gateway.backends.engine import Form
from mm_runtime.gateway.backends.forms import ANY_OBJECT, call_schema, check_bytes
from mm_runtime.gateway.errors import InvalidRequestError

JSON_SCHEMA, REGEX, EBNF = "json_schema", "regex", "ebnf_grammar"
"""As TensorRT-LLM names them."""

_LAST_CONTROL = 0x1F


@dataclass(frozen=True, slots=True)
class TrtllmForms:
    """Implements `mm_runtime.gateway.backends.backend.Forms` in TensorRT-LLM's terms.

    Attributes:
        missing: why the server keeps no forms, and what to do, as a sentence; empty: it does.
    """

    missing: str = ""

    def stated(self, stated: StatedForm) -> Form:
        """Return the form that a request states."""
        self._check_kept(stated.param)
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

    def call(self, functions: Sequence[Function], dialect: ToolDialect, **_several: bool) -> Form:
        """Return the form of one call; more than JSON around it no form of TensorRT-LLM has."""
        if dialect.opening or dialect.listed:
            raise InvalidRequestError(
                "`tool_choice` with a call that must be made is served on this model's backend of "
                "models that write calls as bare JSON, as Llama 3 does. Send `auto`.",
                param="tool_choice",
                code="unsupported_parameter",
            )
        self._check_kept("tool_choice")
        for one in functions:
            _check_schema(dict(one.parameters or ANY_OBJECT), "tools")
        calls = [call_schema(one, dialect) for one in functions]
        schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
        return _bounded(JSON_SCHEMA, json.dumps(schema), "tools")

    def _check_kept(self, param: str) -> None:
        if self.missing:
            raise InvalidRequestError(
                f"`{param}` is not served by this model. {self.missing}",
                param=param,
                code="unsupported_parameter",
            )


def forms_of_version(version: str, missing: str = "") -> TrtllmForms:
    """Return the forms of a server of a version, which may keep none for another reason."""
    if keeps_forms(version):
        return TrtllmForms(missing)
    return TrtllmForms(
        f"Answers are kept to a form since TensorRT-LLM {FORMS_SINCE}, and the model's server is "
        f"{version}: use a newer image."
    )


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


def _check_schema(schema: Schema, param: str) -> None:
    check_bytes(least_size(schema), param)
    _bounded(JSON_SCHEMA, json.dumps(schema), param)  # what is larger takes long to look at
    check_kept(schema, param)


def _bounded(kind: str, text: str, param: str) -> Form:
    check_bytes(len(text.encode(errors="replace")), param)
    return Form(kind, text)
