"""What every wire type is: nothing but its own fields is read."""

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """What a request holds; nothing else is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def form(value: object) -> str:
    """Return the branch of a union of a text and a list, which its errors name."""
    return "<parts>" if isinstance(value, list) else "<string>"


def form_or_null(value: object) -> str:
    """Return the same where null is allowed."""
    return "<null>" if value is None else form(value)
