"""PURE: which of several replicas answers a request.

Rendezvous hashing with bounded load (Mirrokni, Thorup, Zadimoghaddam: Consistent Hashing with
Bounded Loads, 2016): a key's replica is the first in the key's own order that has not much more to
do than the others. One that comes or goes moves only the keys that are its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm_api.rendezvous import order

FACTOR = 1.25
"""Load that a replica may have, relative to the mean of all; the value of HAProxy's and of Envoy's
documentation. Lower values balance better and lose more of what replicas know."""

FREE = 4096
"""Tokens at a replica that are no load, the next request joins their batch: four questions about an
image with answers of the usual length. With twice as many, replicas are loaded by 4 % less evenly
and 8 % more requests meet their first one (bench/router/evenness.py, load 0.8)."""


WORTH = 4
"""A replica that knows a request's images may have this many times their work more to do than the
least busy one. Most of it are answers, which delay others little (docs/studies/routing.md)."""


class By(StrEnum):
    """Why a replica was chosen; the label of a metric."""

    AFFINITY = "affinity"
    """It is the first of the key's order."""
    SPILL = "spill"
    """The first had too much to do."""
    LOAD = "load"
    """The request has no key: the one with the least to do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The replica of a request, and why."""

    replica: str
    by: By


def place(affinity: bytes | None, outstanding: Mapping[str, int], *, turn: int) -> Placement:
    """Choose one of the replicas, of which there is one at least; `turn` decides between equals."""
    if affinity is None:
        replicas = sorted(outstanding)
        start = turn % len(replicas)
        return Placement(min(replicas[start:] + replicas[:start], key=outstanding.get), By.LOAD)  # type: ignore[arg-type]
    most = bound(outstanding)
    preferred = order(affinity, outstanding)
    for position, replica in enumerate(preferred):
        if outstanding[replica] < most:
            return Placement(replica, By.SPILL if position else By.AFFINITY)
    raise AssertionError("a bound above the mean leaves room at one replica")


def stays(known_by: str, outstanding: Mapping[str, int], kept: int) -> bool:
    """Return whether a request goes to what knows its images, which saves it `kept` tokens."""
    least = min(outstanding.values())
    return known_by in outstanding and outstanding[known_by] < least + WORTH * kept


def bound(outstanding: Mapping[str, int]) -> float:
    """Return below how many tokens a replica takes another request, however long that one is.

    Its own tokens are not part of the mean: a chat of a long prompt would find no replica with room
    for it, or all of them.
    """
    return max(FREE, FACTOR * sum(outstanding.values()) / len(outstanding))
