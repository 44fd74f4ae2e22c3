"""PURE: one public name for several models, each with a weight: a canary beside what it replaces.

Weighted rendezvous hashing (Schindelhauer, Schomaker: Weighted distributed hash tables, 2005) over
the key of a request: a chat stays with its version, in every router, and another weight moves no
more keys than it must.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

_NAME = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_MODEL = re.compile(r"[^/\s]+/[^/\s]+")
_MOST_WEIGHT = 100


class SplitError(ValueError):
    """A text is no list of splits; the message has the place and what is expected there."""


class SplitReason(StrEnum):
    """Why a model of a split got a request; the label of a metric."""

    WEIGHT = "weight"
    """It is the key's own."""
    FALLBACK = "fallback"
    """The key's own has no replica that takes requests."""


@dataclass(frozen=True, slots=True)
class Part:
    """One model of a split.

    Attributes:
        model: `NAMESPACE/NAME`, or an adapter's `NAMESPACE/NAME:ADAPTER`.
        weight: relative to those of the other parts; 0: no new requests.
    """

    model: str
    weight: int


@dataclass(frozen=True, slots=True)
class Split:
    """A public name, and the models that answer to it."""

    name: str
    parts: tuple[Part, ...]


def read_splits(text: bytes) -> tuple[Split, ...]:
    """Read what the chart has written: a JSON list of `{name, models: [{model, weight}]}`.

    Raises:
        SplitError: it is something else.
    """
    try:
        written: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SplitError(f"the splits are not JSON: {error}") from None
    if not isinstance(written, list):
        raise SplitError("the splits are not a list")
    splits = tuple(_split(one, f"splits[{n}]") for n, one in enumerate(written))
    _refuse_twice([one.name for one in splits], "splits", "name")
    return splits


def choose(key: bytes, parts: Sequence[Part], ready: Sequence[bool]) -> tuple[Part, SplitReason]:
    """Return the part of a key; one of weight 0 never.

    `parts`: at least one has a weight. `ready`: whether each has a replica that takes requests.
    Where none has, the key's own part is returned: its model says so.
    """
    candidates = [pair for pair in zip(parts, ready, strict=True) if pair[0].weight]
    own, is_ready = max(candidates, key=lambda pair: _score(key, pair[0]))
    others = [part for part, other_is_ready in candidates if other_is_ready]
    if is_ready or not others:
        return own, SplitReason.WEIGHT
    return max(others, key=lambda part: _score(key, part)), SplitReason.FALLBACK


def key_of_turn(turn: int) -> bytes:
    return turn.to_bytes(16)


def _score(key: bytes, part: Part) -> float:
    digest = hashlib.blake2b(part.model.encode(), key=key, digest_size=8).digest()
    return math.log((int.from_bytes(digest) + 1) / (1 << 64)) / part.weight


def _split(written: Any, place: str) -> Split:
    if not isinstance(written, dict) or written.keys() != {"name", "models"}:
        raise SplitError(f"{place}: expected {{name, models}}")
    name, models = written["name"], written["models"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SplitError(f"{place}.name: expected up to 63 letters, digits, '-', '_' and '.'")
    if not isinstance(models, list) or not models:
        raise SplitError(f"{place}.models: expected a list of {{model, weight}}")
    parts = tuple(_part(one, f"{place}.models[{n}]") for n, one in enumerate(models))
    _refuse_twice([one.model for one in parts], f"{place}.models", "model")
    if not any(one.weight for one in parts):
        raise SplitError(f"{place}.models: every weight is 0; one at least must be above")
    return Split(name, parts)


def _part(written: Any, place: str) -> Part:
    if not isinstance(written, dict) or written.keys() != {"model", "weight"}:
        raise SplitError(f"{place}: expected {{model, weight}}")
    model, weight = written["model"], written["weight"]
    if not isinstance(model, str) or not _MODEL.fullmatch(model):
        raise SplitError(f"{place}.model: expected NAMESPACE/NAME")
    if type(weight) is not int or not 0 <= weight <= _MOST_WEIGHT:
        raise SplitError(f"{place}.weight: expected an integer from 0 to {_MOST_WEIGHT}")
    return Part(model, weight)


def _refuse_twice(names: Sequence[str], place: str, field: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise SplitError(f"{place}: {field} {name!r} occurs more than once")
