"""Wire type of `structured_outputs`: what an answer must be, as vLLM spells it."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StrictBool, model_validator
from pydantic_core import from_json

from mm_runtime.gateway.api.wire import JsonObject, Wire

MAX_PATTERN = 4096
"""Characters of a pattern."""
MAX_TEXTS, MAX_CHOICE = 256, 1024
"""Texts of which an answer is one, and characters of each."""

Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN)]
Texts = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_CHOICE)]],
    Field(min_length=1, max_length=MAX_TEXTS),
]


def _read(schema: object) -> object:
    """Return a schema, which may be a text of JSON; nested no deeper than a body may be."""
    if not isinstance(schema, str):
        return schema
    try:
        return from_json(schema, allow_inf_nan=False)
    except ValueError:
        message = "expected a JSON schema, or a text of one"
        raise ValueError(message) from None


Schema = Annotated[JsonObject, BeforeValidator(_read)]


class StructuredOutputs(Wire):
    """One form of an answer."""

    json_schema: Schema | None = Field(default=None, alias="json")
    json_object: StrictBool | None = None
    regex: Pattern | None = None
    choice: Texts | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self._given) != 1:
            message = (
                "expected one of `json`, `json_object` (true), `regex` and `choice`, "
                f"got {len(self._given)}"
            )
            raise ValueError(message)
        return self

    @property
    def _given(self) -> list[str]:
        fields = type(self).model_fields
        return [
            fields[name].alias or name for name, one in self if one is not None and one is not False
        ]

    @property
    def kind(self) -> str:
        return self._given[0]
