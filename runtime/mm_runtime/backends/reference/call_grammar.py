"""PURE: the grammar of answers that call a tool, in the dialect of llguidance's lark."""

import json
from collections.abc import Sequence

from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tools import Function
from mm_runtime.gateway.backends.forms import call_schema

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
