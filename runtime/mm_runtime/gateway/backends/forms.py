"""PURE: the form that a request wants of its answer; how it is written is the backend's."""

from dataclasses import replace
from typing import Any

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.openai import ChatRequest, SampledRequest
from mm_runtime.gateway.api.responses import ResponsesChat
from mm_runtime.gateway.api.stated_form import stated_form
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tools import Function, NamedChoice
from mm_runtime.gateway.backends.backend import Forms
from mm_runtime.gateway.backends.engine import MAX_FORM_BYTES, Form

ANY_OBJECT = {"type": "object", "additionalProperties": True}
"""`json_object`: xgrammar's own grammar of JSON would allow lists, too."""

_DEFINITIONS = ("$defs", "definitions")


def form_of(request: SampledRequest, dialect: ToolDialect | None, forms: Forms) -> Form | None:
    """Return the form; None: any text.

    `dialect`: in which the model writes calls of tools, where it knows some.

    Raises:
        InvalidRequestError: the schema is too large, or the server does not keep such a form.
    """
    if isinstance(request, ChatRequest) and dialect is not None and request.must_call:
        one = isinstance(request.tool_choice, NamedChoice) or request.most_calls == 1
        return replace(forms.call(_callable(request), dialect, several=not one), param="tools")
    stated = stated_form(request)
    if stated is None:
        return None
    param = "text" if isinstance(request, ResponsesChat) else stated.param
    return replace(forms.stated(stated), param=param)


def check_bytes(size: int, param: str) -> None:
    """Refuse what a request says of its answer's form where it is too large to be read."""
    if size > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"`{param}` is a form of {size} bytes, at most {MAX_FORM_BYTES} are read.", param=param
        )


def call_schema(function: Function, dialect: ToolDialect) -> dict[str, Any]:
    """Return the schema of a call; definitions are at its root, where references point at them."""
    arguments = dict(function.parameters or ANY_OBJECT)
    arguments.pop("$schema", None)
    lifted = {name: arguments.pop(name) for name in _DEFINITIONS if name in arguments}
    return {
        **lifted,
        "type": "object",
        "properties": {"name": {"const": function.name}, dialect.arguments: arguments},
        "required": ["name", dialect.arguments],
        "additionalProperties": False,
    }


def calls_need_tokens(request: SampledRequest, dialect: ToolDialect | None) -> bool:
    """Return whether calls are marked by a control token, which otherwise has no text."""
    offered = isinstance(request, ChatRequest) and request.offered
    return bool(offered) and dialect is not None and dialect.opening_id is not None


def _callable(request: ChatRequest) -> list[Function]:
    choice, functions = request.tool_choice, [tool.function for tool in request.offered]
    if isinstance(choice, NamedChoice):
        return [one for one in functions if one.name == choice.function.name]
    return functions
