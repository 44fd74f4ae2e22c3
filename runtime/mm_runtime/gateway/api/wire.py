"""What every wire type is: nothing but its own fields is read, and null is what is absent."""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails

from mm_runtime.gateway.api.unused import HINTS, is_unused


class Wire(BaseModel):
    """What a request holds; nothing else is read."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        allow_inf_nan=False,
        json_schema_extra={"additionalProperties": {"type": "null"}},
    )

    others: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    """Fields that are none of its own, and may have these values besides null."""

    @model_validator(mode="after")
    def _nothing_else(self) -> Self:
        """Refuse fields that are not known here and would change something elsewhere."""
        extra = self.__pydantic_extra__
        if not extra:
            return self
        wrong = [
            InitErrorDetails(type="extra_forbidden", loc=(name,), input=None)
            for name, value in extra.items()
            if not is_unused(value, self.others.get(name, ()))
            and not (name in HINTS and isinstance(value, dict))
        ]
        if wrong:
            raise ValidationError.from_exception_data(type(self).__name__, wrong)
        extra.clear()
        return self


def null_is(default: object) -> BeforeValidator:
    """Return what reads null as the default: some SDKs write what was left out as null."""
    return BeforeValidator(lambda value: default if value is None else value)


def in_json(content: dict[str, Any]) -> dict[str, Any]:
    """Return an object all of whose numbers JSON can write: `1e999` is read as infinity."""
    left: list[object] = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, float) and not isfinite(value):
            message = f"holds {value}, which JSON cannot write: send a finite number, or a text"
            raise ValueError(message)
    return content


JsonObject = Annotated[dict[str, Any], AfterValidator(in_json)]
"""An object of a client's own names: a schema, variables of a template."""


def form(value: object) -> str:
    """Return the branch of a union of a text and a list, which its errors name."""
    return "<parts>" if isinstance(value, list) else "<string>"


def form_or_null(value: object) -> str:
    return "<null>" if value is None else form(value)
