"""PURE: the form that a request wants of its answer, as engines name it."""

import json
import re
from dataclasses import replace

from mm_runtime.gateway.api.guided import Guided
from mm_runtime.gateway.api.openai import ChatRequest, SampledRequest
from mm_runtime.gateway.api.response_format import JsonFormat, SchemaFormat, TagFormat
from mm_runtime.gateway.api.responses import ResponsesChat
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tools import Function, NamedChoice
from mm_runtime.gateway.backends.call_grammar import call_grammar
from mm_runtime.gateway.backends.engine import MAX_FORM_BYTES, Form
from mm_runtime.gateway.backends.tag_grammar import tag_grammar
from mm_runtime.gateway.backends.trtllm_forms import trtllm_call, trtllm_form
from mm_runtime.gateway.errors import InvalidRequestError


def form_of(
    request: SampledRequest,
    dialect: ToolDialect | None,
    control: re.Pattern[str] | None = None,
    guided: Guided | None = None,
) -> Form | None:
    """Return the form; None: any text.

    Args:
        request: with one form at the most.
        dialect: in which the model writes calls of tools, where it knows some.
        control: finds the tokenizer's control tokens, which are no text.
        guided: what a server of TensorRT-LLM keeps answers to; None: the Reference engine.

    Raises:
        InvalidRequestError: the schema is too large, a structure begins with a control token, or
            the server does not keep such a form.
    """
    form = _form_of(request, dialect, control, guided)
    return None if form is None else replace(form, param=_stated_by(request))


def _form_of(
    request: SampledRequest,
    dialect: ToolDialect | None,
    control: re.Pattern[str] | None,
    guided: Guided | None,
) -> Form | None:
    if isinstance(request, ChatRequest) and dialect is not None and request.must_call:
        functions = _callable(request)
        if guided is not None:
            return trtllm_call(functions, dialect, guided)
        one = isinstance(request.tool_choice, NamedChoice) or request.most_calls == 1
        return _call_form(functions, dialect, several=not one)
    return _own_form(request, control) if guided is None else trtllm_form(request, guided)


def _stated_by(request: SampledRequest) -> str:
    """Return the parameter that states the form of a request that has one."""
    if isinstance(request, ChatRequest) and request.must_call:
        return "tools"
    names = ("guided_regex", "guided_choice", "guided_grammar")
    guides = [name for name in names if getattr(request, name) is not None]
    own = "text" if isinstance(request, ResponsesChat) else "response_format"
    return guides[0] if guides else own


def _own_form(request: SampledRequest, control: re.Pattern[str] | None) -> Form | None:
    """Return the form in the Reference engine's terms."""
    if request.guided_regex is not None:
        return Form("regex", request.guided_regex)
    if request.guided_choice is not None:
        return Form("regex", "|".join(map(re.escape, request.guided_choice)))
    if request.guided_grammar is not None:
        return Form("lark", request.guided_grammar)
    if isinstance(request.response_format, TagFormat):
        return _tag_form(request.response_format, control)
    return _response_form(request)


def calls_need_tokens(request: SampledRequest, dialect: ToolDialect | None) -> bool:
    """Return whether calls are marked by a control token, which otherwise has no text."""
    offered = isinstance(request, ChatRequest) and request.offered
    return bool(offered) and dialect is not None and dialect.opening_id is not None


def _response_form(request: SampledRequest) -> Form | None:
    match request.response_format:
        case JsonFormat():
            return Form("json")
        case SchemaFormat():
            schema = request.response_format.json_schema.json_schema
            if schema is None:
                return Form("json")
            text = json.dumps(schema)
            if len(text) > MAX_FORM_BYTES:
                raise InvalidRequestError(
                    f"The schema has {len(text)} bytes, at most {MAX_FORM_BYTES} are read.",
                    param="response_format.json_schema.schema",
                )
            return Form("json_schema", text)
        case _:
            return None


def _tag_form(form: TagFormat, control: re.Pattern[str] | None) -> Form:
    """Return the form of a text with structures."""
    for number, structure in enumerate(form.structures):
        for name, text in (("begin", structure.begin), ("end", structure.end)):
            if control is not None and (found := control.search(text)):
                param = f"response_format.structures[{number}].{name}"
                raise InvalidRequestError(
                    f"`{param}` contains {found[0]!r}, a control token of this model, which no "
                    "text of an answer is. For calls send `tools` with `tool_choice`.",
                    param=param,
                    code="control_token",
                )
    grammar = tag_grammar(form)
    if len(grammar) > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"The structures have {len(grammar)} bytes, at most {MAX_FORM_BYTES} are read.",
            param="response_format.structures",
        )
    return Form("lark", grammar)


def _callable(request: ChatRequest) -> list[Function]:
    """Return the functions of which one must be called."""
    choice, functions = request.tool_choice, [tool.function for tool in request.offered]
    if isinstance(choice, NamedChoice):
        return [one for one in functions if one.name == choice.function.name]
    return functions


def _call_form(functions: list[Function], dialect: ToolDialect, *, several: bool) -> Form:
    """Return the form of an answer that calls a tool."""
    grammar = call_grammar(functions, dialect, several=several)
    if len(grammar) > MAX_FORM_BYTES:
        raise InvalidRequestError(
            f"The schemas of the functions have {len(grammar)} bytes, at most {MAX_FORM_BYTES} "
            "are read where one must be called.",
            param="tools",
        )
    return Form("lark", grammar)
