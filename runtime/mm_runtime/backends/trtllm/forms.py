"""PURE: the form that a request wants of its answer, for servers of TensorRT-LLM.

xgrammar drops what it does not know of a schema, with a warning in the server's log, and answers
without it. What it drops is refused by name; what it knows is passed through, and what is no schema
it refuses itself. Found with xgrammar 0.1.25, which TensorRT-LLM 1.2 has: the oldest one that forms
are sent to.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm_api.documents.trtllm_serve import FORMS_SINCE, keeps_forms
from mm_edge.errors import InvalidRequestError
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
    for keyword in _OF_NAMES:
        named = node.get(keyword)
        yield from named.items() if isinstance(named, dict) else ()
    for keyword in _OF_LISTS:
        several = node.get(keyword)
        yield from ((keyword, one) for one in (several if isinstance(several, list) else ()))
    yield from ((name, node[name]) for name in ("items", "additionalProperties") if name in node)


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
