"""Model bases: what a type of the API and what a document on disk have in common.

Both are frozen, refuse unknown fields (a typo is an error, never ignored) and travel as camelCase.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Short = Annotated[str, Field(max_length=1024)]
"""A text of the status: the API server bounds what its rules may cost by the length of texts."""


class ApiModel(BaseModel):
    """A part of the custom resource: immutable, strict about names, camelCase on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        use_enum_values=False,
        validate_default=True,
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # pydantic copies each default that holds a list, which took most of reading a spec.
        return self


class Document(ApiModel):
    """A versioned file or message that one process writes and another one reads."""

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the document as JSON with camelCase keys; fields that are `None` are left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a document. ValidationError: the text is not JSON or not this document."""
        return cls.model_validate_json(text)
