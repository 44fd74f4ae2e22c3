"""PURE: one public name for several models, each with a weight: a canary beside what it replaces.

Weighted rendezvous hashing (Schindelhauer, Schomaker: Weighted distributed hash tables, 2005) over
the key of a request: a chat stays with its version, in every router, and another weight moves no
more keys than it must.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

_NAME = r"^[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
_MODEL = r"^[^/\s]+/[^/\s]+$"
_STRICT = ConfigDict(extra="forbid", strict=True)


class SplitReason(StrEnum):
    """Why a model of a split got a request; the label of a metric."""

    WEIGHT = "weight"
    """It is the key's own."""
    FALLBACK = "fallback"
    """The key's own has no replica that takes requests."""


@dataclass(frozen=True, slots=True)
class Part:
    """One model of a split, `NAMESPACE/NAME` or `NAMESPACE/NAME:ADAPTER`; weight 0: nothing new."""

    __pydantic_config__ = _STRICT
    model: Annotated[str, Field(pattern=_MODEL)]
    weight: Annotated[int, Field(ge=0, le=100)]


def _weighted(models: tuple[Part, ...]) -> tuple[Part, ...]:
    if not any(one.weight for one in models):
        raise ValueError("every weight is 0; one at least must be above")
    _refuse_twice([one.model for one in models])
    return models


@dataclass(frozen=True, slots=True)
class Split:
    """A public name, and the models that answer to it."""

    __pydantic_config__ = _STRICT
    name: Annotated[str, Field(pattern=_NAME)]
    models: Annotated[tuple[Part, ...], AfterValidator(_weighted)]


def _refuse_twice(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} occurs more than once")


_SPLITS = TypeAdapter(tuple[Split, ...])


def read_splits(text: bytes) -> tuple[Split, ...]:
    """Read what the chart has written: a JSON list of `{name, models: [{model, weight}]}`.

    Raises:
        ValueError: it is something else; the message has the place and what is expected there.
    """
    splits = _SPLITS.validate_json(text)
    _refuse_twice([one.name for one in splits])
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
