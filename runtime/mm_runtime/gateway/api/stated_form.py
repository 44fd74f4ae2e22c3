"""PURE: the form that a request states, by whichever of its parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mm_runtime.gateway.api.openai import SampledRequest
from mm_runtime.gateway.api.response_format import JsonFormat, SchemaFormat, TagFormat
from mm_runtime.gateway.api.structured_outputs import StructuredOutputs

Value = TypeVar("Value")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that a pattern matches."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some texts."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A text of a grammar, in llguidance's dialect of lark."""

    grammar: str


@dataclass(frozen=True, slots=True)
class AnyObject:
    """Any JSON object."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """JSON of a schema."""

    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StatedForm:
    """A form, and where the request has it.

    Attributes:
        form: what the answer must be.
        param: the parameter that states it.
        inner: the place in it of a schema.
    """

    form: Pattern | Choice | Grammar | AnyObject | JsonSchema | TagFormat
    param: str
    inner: str = ""


def stated_form(request: SampledRequest) -> StatedForm | None:
    """Return the form that a request states; None: any text, or that of a call."""
    for param, guide in (
        ("guided_json", _made(JsonSchema, request.guided_json)),
        ("guided_regex", _made(Pattern, request.guided_regex)),
        ("guided_choice", _made(Choice, request.guided_choice)),
        ("guided_grammar", _made(Grammar, request.guided_grammar)),
    ):
        if guide is not None:
            return StatedForm(guide, param, param)
    if request.structured_outputs is not None:
        return _structured(request.structured_outputs)
    match request.response_format:
        case JsonFormat():
            return StatedForm(AnyObject(), "response_format")
        case SchemaFormat(json_schema=named):
            schema = named.json_schema
            form = AnyObject() if schema is None else JsonSchema(schema)
            return StatedForm(form, "response_format", "response_format.json_schema.schema")
        case TagFormat():
            return StatedForm(request.response_format, "response_format")
        case _:
            return None


def _structured(stated: StructuredOutputs) -> StatedForm:
    param = f"structured_outputs.{stated.kind}"
    form = (
        _made(Pattern, stated.regex)
        or _made(Choice, stated.choice)
        or _made(Grammar, stated.grammar)
        or _made(JsonSchema, stated.json_schema)
    )
    return StatedForm(form or AnyObject(), param, param)


def _made(kind: Callable[[Value], Made], value: Value | None) -> Made | None:
    return None if value is None else kind(value)
