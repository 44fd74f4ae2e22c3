"""PURE: the form that a request states, by whichever of its parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mm_runtime.gateway.api.openai import SampledRequest
from mm_runtime.gateway.api.response_format import JsonFormat, SchemaFormat
from mm_runtime.gateway.api.structured_outputs import StructuredOutputs


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that a pattern matches."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some texts."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class AnyObject:
    """Any JSON object."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """JSON of a schema."""

    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StatedForm:
    """A form, the parameter that states it, and the place in it of a schema."""

    form: Pattern | Choice | AnyObject | JsonSchema
    param: str
    inner: str = ""


def stated_form(request: SampledRequest) -> StatedForm | None:
    """Return the form that a request states; None: any text, or that of a call."""
    if request.structured_outputs is not None:
        return _structured(request.structured_outputs)
    match request.response_format:
        case JsonFormat():
            return StatedForm(AnyObject(), "response_format")
        case SchemaFormat(json_schema=named):
            schema = named.json_schema
            form = AnyObject() if schema is None else JsonSchema(schema)
            return StatedForm(form, "response_format", "response_format.json_schema.schema")
        case _:
            return None


def _structured(stated: StructuredOutputs) -> StatedForm:
    param = f"structured_outputs.{stated.kind}"
    form: Pattern | Choice | AnyObject | JsonSchema = AnyObject()
    if stated.regex is not None:
        form = Pattern(stated.regex)
    elif stated.choice is not None:
        form = Choice(stated.choice)
    elif stated.json_schema is not None:
        form = JsonSchema(stated.json_schema)
    return StatedForm(form, param, param)
