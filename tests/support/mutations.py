"""Bodies of requests that went wrong in every way that a seeded generator comes upon."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

STRANGE: tuple[object, ...] = (
    None, True, -1, 0, 2**63, 1e308, "", "\x00", "\ud800", "<s>", "x" * 5000, [], {}, [[]], [None],
    {"type": "text"}, {"type": "image_url", "image_url": {"url": "data:,"}},
    "data:image/png;base64,",
    "http://[", "http://127.0.0.1:1/", float("nan"), float("inf"), {"": ""}, [{}] * 50,
)  # fmt: skip
"""Values that stand where others are expected."""


def mutated(model: str, seed: int, count: int) -> Iterator[bytes]:
    """Return bodies of chat completions, each with one to four changes; the same for a seed."""
    chance = random.Random(seed)  # noqa: S311 - a test's choices
    for _ in range(count):
        body = _body(model)
        for _ in range(chance.randint(1, 4)):
            chance.choice(_CHANGES)(body, chance)
        written = json.dumps(body).encode()
        yield _damaged(written, chance) if chance.random() < 0.3 else written


def changed(value: Any, chance: random.Random) -> Any:
    inside = {"": value}
    chance.choice(_CHANGES)(inside, chance)
    return inside.get("")


def _body(model: str) -> dict[str, Any]:
    parts = [
        {"type": "text", "text": "what is it ?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
    ]
    return {
        "model": model,
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": parts}],
        "max_tokens": 2,
        "temperature": 0.5,
        "top_p": 0.5,
        "seed": 1,
        "stop": ["a", "b"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "response_format": {"type": "text"},
        "user": "x",
        "metadata": {"a": "b"},
    }


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    for key in keys:
        found += [(value, key), *_places(value[key])]
    return found


def _strange(chance: random.Random) -> object:
    return copy.deepcopy(chance.choice(STRANGE))


def _replace(body: Any, chance: random.Random) -> None:
    if places := _places(body):
        container, key = chance.choice(places)
        container[key] = _strange(chance)


def _remove(body: Any, chance: random.Random) -> None:
    if places := _places(body):
        container, key = chance.choice(places)
        del container[key]


def _repeat(body: Any, chance: random.Random) -> None:
    lists = [one for one, _ in _places(body) if isinstance(one, list) and one]
    if lists:
        chosen = chance.choice(lists)
        chosen += chosen[:] * chance.randint(1, 6)


def _add(body: Any, chance: random.Random) -> None:
    objects = [one for one, _ in _places(body) if isinstance(one, dict)]
    if objects:
        chance.choice(objects)[chance.choice(["x", "n", "tools", "\ud800", ""])] = _strange(chance)


def _nest(body: Any, chance: random.Random) -> None:
    if places := _places(body):
        container, key = chance.choice(places)
        for _ in range(chance.choice([1, 10, 300])):
            container[key] = [container[key]]


_CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    _replace,
    _remove,
    _repeat,
    _add,
    _nest,
)


def _damaged(written: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(written))
    match chance.randrange(4):
        case 0:
            return written[:at]
        case 1:
            return written[:at] + chance.randbytes(chance.randint(1, 8)) + written[at:]
        case 2:
            return written + written
        case _:
            return (
                written[:at] + bytes([written[at] ^ (1 << chance.randrange(8))]) + written[at + 1 :]
            )
