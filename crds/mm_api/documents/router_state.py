"""What a router says of the requests that wait in it, as JSON: the operator reads it."""

from pydantic import Field

from mm_api.base import Document

PATH = "/held"
"""On the port of the router's metrics."""


class RouterState(Document):
    """One router at one moment."""

    namespaces: list[str] = Field(
        default=[], description="Namespaces of models that it routes to. Empty: all."
    )
    held: dict[str, int] = Field(
        default={}, description="Requests that wait for a replica, by NAMESPACE/NAME of the model."
    )
    waited_seconds: dict[str, float] = Field(
        default={}, description="How long the oldest of them has waited, by the same names."
    )
