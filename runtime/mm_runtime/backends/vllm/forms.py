"""PURE: the form that a request wants of its answer, in the words of vLLM's `structured_outputs`.

What its grammar library does not keep of a schema vLLM gives to another, or refuses itself.
"""

import json
from collections.abc import Sequence
from typing import Any

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


class VllmForms:
    """Implements `mm_runtime.gateway.backends.backend.Forms`; the text of each form is JSON.

    Its own `json_object` is not used: it would allow lists, too.
    """

    def stated(self, stated: StatedForm) -> Form:
        match stated.form:
            case Pattern(pattern):
                return _form("regex", pattern, stated.param)
            case Choice(texts):
                return _form("choice", [*dict.fromkeys(texts)], stated.param)
            case AnyObject():
                return _form("json", ANY_OBJECT, stated.param)
            case JsonSchema(schema):
                check_bytes(least_size(schema), stated.inner)
                return _form("json", schema, stated.inner)

    def call(self, functions: Sequence[Function], dialect: ToolDialect, *, several: bool) -> Form:
        """Return the form of an answer that calls one of some functions, or several in a row."""
        if dialect.opening_id is not None:
            raise InvalidRequestError(
                "`tool_choice` with a call that must be made is not served of models that mark "
                "calls by a control token, which vLLM's grammars do not have. Send `auto`.",
                param="tool_choice",
                code="unsupported_parameter",
            )
        check_bytes(sum(least_size(one.parameters) for one in functions), "tools")
        calls = [call_schema(one, dialect) for one in functions]
        if dialect.listed:
            most = {} if several and dialect.several else {"maxItems": 1}
            schema = {"type": "array", "items": {"anyOf": calls}, "minItems": 1, **most}
            tags = [_tag(dialect.opening, schema, dialect.closing)]
        elif dialect.opening:
            tags = [_tag(f"{dialect.opening}\n", one, f"\n{dialect.closing}") for one in calls]
        else:
            return _form("json", calls[0] if len(calls) == 1 else {"anyOf": calls}, "tools")
        row = {
            "type": "tags_with_separator",
            "tags": tags,
            "separator": "\n",
            "at_least_one": True,
            "stop_after_first": not (several and dialect.several) or dialect.listed,
        }
        text = json.dumps({"type": "structural_tag", "format": row})
        return _form("structural_tag", text, "tools")


def _tag(begin: str, schema: dict[str, Any], end: str) -> dict[str, Any]:
    content = {"type": "json_schema", "json_schema": schema}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _form(kind: str, value: object, param: str) -> Form:
    text = json.dumps(value)
    check_bytes(len(text), param)
    return Form(kind, text)
