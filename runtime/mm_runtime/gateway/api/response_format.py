"""Wire types of `response_format`: what an answer must be."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from mm_runtime.gateway.api.wire import JsonObject, Wire


class TextFormat(Wire):
    """Any text."""

    type: Literal["text"]


class JsonFormat(Wire):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Wire):
    """A JSON schema; name, description and `strict` are labels: it always holds."""

    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    json_schema: JsonObject | None = Field(default=None, alias="schema")
    strict: StrictBool | None = None


class SchemaFormat(Wire):
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextFormat | JsonFormat | SchemaFormat, Field(discriminator="type")]
