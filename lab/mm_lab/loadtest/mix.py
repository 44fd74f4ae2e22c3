"""What requests hold: images, words, length of the answer; drawn with weights and a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from mm_lab.loadtest.arrivals import Due
from mm_lab.loadtest.image import random_image_url

POOL = 32
"""Different images of a run, made before it: making them meanwhile would delay requests."""

_FILLER = tuple(
    f"{adjective} {noun}"
    for adjective in ("old", "new", "red", "blue", "small", "tall", "quick", "quiet")
    for noun in ("house", "river", "bird", "road", "tree", "clock", "table", "coat")
)
"""Pairs of words: 64 of them give two requests of some length practically no common start."""


class MixError(ValueError):
    """A text is no list of choices. The command line prints the message and exits 2."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Whole numbers with weights, written `VALUE[:WEIGHT],...`."""

    values: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Choice":
        """Read a choice.

        Raises:
            MixError: the text is not one.
        """
        values, weights = [], []
        for part in text.split(","):
            value, _, weight = part.partition(":")
            try:
                values.append(int(value))
                weights.append(float(weight or 1))
            except ValueError:
                raise MixError(
                    f"{text!r} is not a list of VALUE[:WEIGHT],... with integers, such as 0:3,1:7"
                ) from None
        if min(values) < 0 or min(weights) < 0 or not sum(weights):
            raise MixError(f"{text!r} has a number below zero, or no weight at all")
        return cls(tuple(values), tuple(weights))

    def draw(self, source: random.Random) -> int:
        """Return one of the values."""
        return source.choices(self.values, self.weights)[0]


@dataclass(frozen=True, slots=True)
class Question:
    """The body of one request, and how many images are in it."""

    body: dict[str, Any]
    images: int
    path: str = "chat/completions"
    """Below `/v1`."""

    turn: int = 1


class Requests(Protocol):
    """What users of a closed loop send."""

    def of_user(self, number: int) -> "Sends":
        """Return what one of them sends."""


class Sends(Protocol):
    """What one user sends."""

    def question(self, due: Due, source: random.Random) -> Question:
        """Return the next request."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What every request of a run is drawn from.

    Attributes:
        model: name that the endpoint knows.
        prompt: text of every question; filler words go in front of it.
        images: images in a request.
        words: filler words, which no two requests have alike: caches of prompts stay cold.
        max_tokens: longest answer.
        image_urls: data URLs to choose from.
        temperature: of every request.
    """

    model: str
    prompt: str
    images: Choice
    words: Choice
    max_tokens: Choice
    image_urls: tuple[str, ...]
    temperature: float = 0

    def of_user(self, number: int) -> "Mix":  # noqa: ARG002  # all are alike
        """Return what one user sends."""
        return self

    def questions(self, plan: Iterator[Due], seed: int) -> Iterator[tuple[float, Question]]:
        """Yield when each request is due with its body."""
        source = random.Random(seed)  # noqa: S311  # load, not secrets
        for due in plan:
            yield due.at, self.question(due, source)

    def question(self, due: Due, source: random.Random) -> Question:
        """Return one request; what the plan leaves open is drawn."""
        images = self.images.draw(source) if due.images is None else due.images
        words = self.words.draw(source) if due.words is None else due.words
        limit = self.max_tokens.draw(source) if due.max_tokens is None else due.max_tokens
        filler = " ".join(source.choices(_FILLER, k=-(-words // 2))).split()[:words]
        text = " ".join([*filler, self.prompt])
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": source.choice(self.image_urls)}}
            for _ in range(images)
        ]
        content.append({"type": "text", "text": text})
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": max(1, limit),
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return Question(body, images)


def random_images(size: int, seed: int) -> tuple[str, ...]:
    """Return the pool of generated images."""
    source = random.Random(seed)  # noqa: S311  # load, not secrets
    return tuple(random_image_url(size, source) for _ in range(POOL))
