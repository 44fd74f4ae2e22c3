"""PURE: the form that a request wants of its answer, as engines name it."""

import json
import re
from dataclasses import replace

from mm_runtime.gateway.api.guided import Guided
from mm_runtime.gateway.api.openai import ChatRequest, SampledRequest
from mm_runtime.gateway.api.responses import ResponsesChat
from mm_runtime.gateway.api.schema_size import least_size
from mm_runtime.gateway.api.stated_form import (
    AnyObject,
    Choice,
    JsonSchema,
    Pattern,
    StatedForm,
    stated_form,
)
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tools import Function, NamedChoice
from mm_runtime.gateway.backends.call_grammar import call_grammar
from mm_runtime.gateway.backends.engine import MAX_FORM_BYTES, Form
from mm_runtime.gateway.backends.trtllm_forms import trtllm_call, trtllm_form
from mm_runtime.gateway.errors import InvalidRequestError


def form_of(
    request: SampledRequest,
    dialect: ToolDialect | None,
    guided: Guided | None = None,
) -> Form | None:
    """Return the form; None: any text.

    Args:
        request: with one form at the most.
        dialect: in which the model writes calls of tools, where it knows some.
        guided: what a server of TensorRT-LLM keeps answers to; None: the Reference engine.

    Raises:
        InvalidRequestError: the schema is too large, or the server does not keep such a form.
    """
    if isinstance(request, ChatRequest) and dialect is not None and request.must_call:
        form = _of_call(request, dialect, guided)
        return replace(form, param="tools")
    stated = stated_form(request)
    if stated is None:
        return None
    form = _own_form(stated) if guided is None else trtllm_form(stated, guided)
    return replace(form, param="text" if isinstance(request, ResponsesChat) else stated.param)


def _of_call(request: ChatRequest, dialect: ToolDialect, guided: Guided | None) -> Form:
    functions = _callable(request)
    if guided is not None:
        return trtllm_call(functions, dialect, guided)
    one = isinstance(request.tool_choice, NamedChoice) or request.most_calls == 1
    return _call_form(functions, dialect, several=not one)


def _own_form(stated: StatedForm) -> Form:
    """Return the form in the Reference engine's terms."""
    match stated.form:
        case Pattern(pattern):
            return Form("regex", pattern)
        case Choice(texts):
            return Form("regex", "|".join(map(re.escape, texts)))
        case AnyObject():
            return Form("json")
        case JsonSchema(schema):
            _check_schema(least_size(schema), stated.inner)
            text = json.dumps(schema)
            _check_schema(len(text), stated.inner)
            return Form("json_schema", text)


def _check_schema(size: int, param: str) -> None:
    if size > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"The schema has {size} bytes, at most {MAX_FORM_BYTES} are read.", param=param
        )


def calls_need_tokens(request: SampledRequest, dialect: ToolDialect | None) -> bool:
    """Return whether calls are marked by a control token, which otherwise has no text."""
    offered = isinstance(request, ChatRequest) and request.offered
    return bool(offered) and dialect is not None and dialect.opening_id is not None


def _callable(request: ChatRequest) -> list[Function]:
    """Return the functions of which one must be called."""
    choice, functions = request.tool_choice, [tool.function for tool in request.offered]
    if isinstance(choice, NamedChoice):
        return [one for one in functions if one.name == choice.function.name]
    return functions


def _call_form(functions: list[Function], dialect: ToolDialect, *, several: bool) -> Form:
    """Return the form of an answer that calls a tool."""
    _check_functions(sum(least_size(one.parameters) for one in functions))
    grammar = call_grammar(functions, dialect, several=several)
    _check_functions(len(grammar))
    return Form("lark", grammar)


def _check_functions(size: int) -> None:
    if size > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"The schemas of the functions have {size} bytes, at most {MAX_FORM_BYTES} are read "
            "where one must be called.",
            param="tools",
        )
