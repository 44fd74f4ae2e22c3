"""What a router says of waiting requests and of canaries, as JSON: the operator reads it."""

from pydantic import Field

from mm_api.base import Document

PATH = "/held"
"""On the port of the router's metrics."""


class Pairs(Document):
    """Answers of a canary and of its stable revision to like requests, compared two by two."""

    worse: int = Field(default=0, ge=0, description="The canary's was the worse one.")
    better: int = Field(default=0, ge=0)
    equal: int = Field(default=0, ge=0)

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(
            worse=self.worse + other.worse,
            better=self.better + other.better,
            equal=self.equal + other.equal,
        )


class CanaryEvidence(Document):
    """What a router has seen since a canary has its step and weight."""

    revision: str
    step: int
    weight: int
    errors: Pairs = Field(default=Pairs())
    first_text: Pairs = Field(default=Pairs())
    inter_token: Pairs = Field(default=Pairs())
    text_answers: Pairs | None = Field(
        default=None,
        description="Chats that were replayed on both; worse: they were answered otherwise. "
        "Absent: none was, as of an older router.",
    )
    image_answers: Pairs | None = Field(default=None, description="The same of chats with images.")


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
    canaries: dict[str, CanaryEvidence] = Field(
        default={}, description="By NAMESPACE/NAME of the model."
    )
