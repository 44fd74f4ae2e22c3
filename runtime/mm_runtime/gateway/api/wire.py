"""What every wire type is: nothing but its own fields is read."""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from mm_runtime.gateway.api.schema_rules import Rule


def _state_rules(schema: dict[str, Any], kind: type[Any]) -> None:
    """Write the rules of a type, and of those that it is made of, into its JSON schema."""
    rules = [rule for one in kind.__mro__ for rule in vars(one).get("rules", ())]
    if rules:
        schema["allOf"] = rules


class Wire(BaseModel):
    """What a request holds; nothing else is read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, json_schema_extra=_state_rules
    )

    rules: ClassVar[Sequence[Rule]] = ()
    """Of fields that depend on each other, for the OpenAPI document."""


def form(value: object) -> str:
    """Return the branch of a union of a text and a list, which its errors name."""
    return "<parts>" if isinstance(value, list) else "<string>"


def form_or_null(value: object) -> str:
    """Return the same where null is allowed."""
    return "<null>" if value is None else form(value)
