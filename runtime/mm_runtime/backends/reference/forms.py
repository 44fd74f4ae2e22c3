"""PURE: the form that a request wants of its answer, as the Reference engine names it."""

import json
import re
from collections.abc import Sequence

from mm_runtime.backends.reference.call_grammar import call_grammar
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
from mm_runtime.gateway.backends.forms import check_bytes


class ReferenceForms:
    """Implements `mm_runtime.gateway.backends.backend.Forms`."""

    def stated(self, stated: StatedForm) -> Form:
        """Return the form that a request states."""
        match stated.form:
            case Pattern(pattern):
                return Form("regex", pattern)
            case Choice(texts):
                return Form("regex", "|".join(map(re.escape, texts)))
            case AnyObject():
                return Form("json")
            case JsonSchema(schema):
                check_bytes(least_size(schema), stated.inner)
                text = json.dumps(schema)
                check_bytes(len(text), stated.inner)
                return Form("json_schema", text)

    def call(self, functions: Sequence[Function], dialect: ToolDialect, *, several: bool) -> Form:
        """Return the form of an answer that calls one of some functions, or several in a row."""
        check_bytes(sum(least_size(one.parameters) for one in functions), "tools")
        grammar = call_grammar(functions, dialect, several=several)
        check_bytes(len(grammar), "tools")
        return Form("lark", grammar)
