"""Named scenarios: what their requests hold, and the load that goes with them.

A chat of `multi-turn` has fixed texts for the model's answers, so that every endpoint gets the same
requests; what a server keeps of its own answers is not found by them.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mm_lab.loadtest.arrivals import Due
from mm_lab.loadtest.mix import Mix, Question, Requests

COMPLETIONS: Final = "completions"
FRAMES_A_SECOND: Final = 2
"""Sampled from a video, as DashInfer-VLM's guide requests it."""

_ANSWER: Final = "I see it."


class Scenario(StrEnum):
    """What `--scenario` takes."""

    DASHINFER = "dashinfer"
    MULTI_TURN = "multi-turn"
    VIDEO = "video"
    ENC_DEC = "enc-dec"


DEFAULTS: Final[Mapping[Scenario, Mapping[str, str]]] = {
    # The hundred requests by ten workers of DashInfer-VLM's guide.
    Scenario.DASHINFER: {
        "users": "10",
        "requests": "100",
        "images": "2",
        "prompt": "what is it ?",
        "max_tokens": "1024",
        "temperature": "0.1",
    },
    Scenario.MULTI_TURN: {"users": "4", "prompt": "What is in the image?", "max_tokens": "16"},
    Scenario.VIDEO: {"users": "2", "prompt": "What is in the video?", "max_tokens": "32"},
    Scenario.ENC_DEC: {"images": "0", "prompt": "the house is wonderful .", "max_tokens": "32"},
}
"""Options by their names, where the command line leaves them out."""


@dataclass(frozen=True, slots=True)
class Video:
    """A question about one video in each request."""

    mix: Mix
    url: str

    def of_user(self, number: int) -> "Video":  # noqa: ARG002  # all are alike
        """Return what one user sends."""
        return self

    def question(self, due: Due, source: random.Random) -> Question:
        """Return one request."""
        found = self.mix.question(due, source)
        parts = found.body["messages"][0]["content"]
        texts = [part for part in parts if part["type"] == "text"]
        video = {"url": self.url, "fps": FRAMES_A_SECOND}
        content = [{"type": "video_url", "video_url": video}, *texts]
        body = {**found.body, "messages": [{"role": "user", "content": content}]}
        return Question(body, images=1)


@dataclass(frozen=True, slots=True)
class Texts:
    """A text for `/v1/completions` in each request, as encoder-decoders take it."""

    mix: Mix

    def of_user(self, number: int) -> "Texts":  # noqa: ARG002  # all are alike
        """Return what one user sends."""
        return self

    def question(self, due: Due, source: random.Random) -> Question:
        """Return one request."""
        found = self.mix.question(due, source)
        text = found.body["messages"][0]["content"][-1]["text"]
        body = {name: value for name, value in found.body.items() if name != "messages"}
        return Question({**body, "prompt": text}, images=0, path=COMPLETIONS)


@dataclass(frozen=True, slots=True)
class Chats:
    """Chats about one image that grow by a question at a time."""

    mix: Mix
    turns: int

    def of_user(self, number: int) -> "Chat":  # noqa: ARG002  # a chat of its own for each
        """Return what one user sends."""
        return Chat(self.mix, self.turns)


@dataclass(slots=True)
class Chat:
    """One user's chat; after its last turn the next one begins."""

    mix: Mix
    turns: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    turn: int = 0

    def question(self, due: Due, source: random.Random) -> Question:
        """Return the next turn's request."""
        if self.turn == self.turns:
            self.messages, self.turn = [], 0
        found = self.mix.question(due, source)
        (message,) = found.body["messages"]
        content = message["content"]
        if self.turn:
            content = [part for part in content if part["type"] == "text"]
        self.messages = [*self.messages, {**message, "content": content}]
        body = {**found.body, "messages": self.messages}
        self.turn += 1
        self.messages = [*self.messages, {"role": "assistant", "content": _ANSWER}]
        return Question(body, found.images, turn=self.turn)


def requests_of(scenario: Scenario | None, mix: Mix, *, turns: int, video_url: str) -> Requests:
    """Return what users of a scenario send; None: the mix alone."""
    match scenario:
        case Scenario.MULTI_TURN:
            return Chats(mix, turns)
        case Scenario.VIDEO:
            return Video(mix, video_url)
        case Scenario.ENC_DEC:
            return Texts(mix)
        case _:
            return mix
