"""Wire types of `response_format`: what an answer must be."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, model_validator

from mm_runtime.gateway.api.wire import Wire

MAX_STRUCTURES = 128
"""As many as functions."""
MAX_MARK = 256
"""Characters of what begins or ends a structure."""


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
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: StrictBool | None = None


class SchemaFormat(Wire):
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class Structure(Wire):
    """JSON of a schema between two texts."""

    begin: str = Field(min_length=1, max_length=MAX_MARK)
    json_schema: dict[str, Any] = Field(alias="schema")
    end: str = Field(max_length=MAX_MARK)


class TagFormat(Wire):
    """Any text, in which a trigger begins one of some structures, as vLLM spells it."""

    type: Literal["structural_tag"]
    structures: list[Structure] = Field(min_length=1, max_length=MAX_STRUCTURES)
    triggers: list[Annotated[str, Field(min_length=1, max_length=MAX_MARK)]] = Field(
        min_length=1, max_length=MAX_STRUCTURES
    )

    @model_validator(mode="after")
    def _triggered(self) -> Self:
        """Let each structure have one trigger, and each trigger a structure."""
        for number, structure in enumerate(self.structures):
            if sum(map(structure.begin.startswith, self.triggers)) != 1:
                message = f"`begin` of structure {number} does not begin with one of `triggers`"
                raise ValueError(message)
        for number, trigger in enumerate(self.triggers):
            if not any(structure.begin.startswith(trigger) for structure in self.structures):
                message = f"trigger {number} begins none of `structures`"
                raise ValueError(message)
        return self


ResponseFormat = Annotated[
    TextFormat | JsonFormat | SchemaFormat | TagFormat, Field(discriminator="type")
]
