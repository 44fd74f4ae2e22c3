"""PURE: the form that a request wants of its answer, as the Reference engine names it."""

import json
import re
from collections.abc import Sequence

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
from mm_runtime.gateway.backends.forms import call_schema, check_bytes

_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""As templates write calls, which their models have learnt."""


def call_grammar(functions: Sequence[Function], dialect: ToolDialect, *, several: bool) -> str:
    """Return what matches a call of one of some functions, or several calls in a row."""
    calls = " | ".join(f"call_{number}" for number in range(len(functions)))
    rules = [f"call: {calls}"]
    schemas = ({"x-guidance": _WRITTEN, **call_schema(one, dialect)} for one in functions)
    rules += [f"call_{number}: %json {json.dumps(one)}" for number, one in enumerate(schemas)]
    more = several and dialect.several
    if dialect.listed:
        start = f'{_opening(dialect)} "[" call{_more(", ", "call") if more else ""} "]"'
    elif dialect.opening:
        rules.append(f'marked: {_opening(dialect)} "\\n" call "\\n" {json.dumps(dialect.closing)}')
        start = "marked" + (_more("\n", "marked") if more else "")
    else:
        start = "call"
    return "\n".join([f"start: {start}", *rules]) + "\n"


def _more(separator: str, rule: str) -> str:
    return f" ({json.dumps(separator)} {rule})*"


def _opening(dialect: ToolDialect) -> str:
    token = dialect.opening_id
    return json.dumps(dialect.opening) if token is None else f"<[{token}]>"


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
        check_bytes(sum(least_size(one.parameters) for one in functions), "tools")
        grammar = call_grammar(functions, dialect, several=several)
        check_bytes(len(grammar), "tools")
        return Form("lark", grammar)
