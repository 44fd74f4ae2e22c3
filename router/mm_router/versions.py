"""Which revision of a model answers a request, and how the answers of the two compare.

A canary gets the keys whose hash is below its weight: a chat of the new revision stays there while
the weight grows. Answers are compared in pairs, one of each revision to requests of like size
within a minute, each once: what changes for both at a time changes no pair.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from mm_api.documents.router_state import CanaryEvidence, Pairs
from mm_router.catalog import Canary, Model

_WINDOW_SECONDS = 60.0
"""Between the two answers of a pair."""

_WAITING = 64
"""Answers of one size and revision that wait for one of the other: the newest."""


class Version(StrEnum):
    """Whose a replica is; the label of metrics."""

    STABLE = "stable"
    CANARY = "canary"


class RequestKind(StrEnum):
    """What a replayed chat holds; the label of a metric."""

    TEXT = "text"
    IMAGE = "image"


def version_of(key: bytes, model: Model) -> Version:
    """Return the revision that a key belongs to."""
    if model.canary is None:
        return Version.STABLE
    salt = f"{'/'.join(model.key)}/{model.canary.revision}".encode()
    digest = hashlib.blake2b(salt, key=key, digest_size=8).digest()
    share = int.from_bytes(digest) / (1 << 64)
    return Version.CANARY if share < model.canary.weight / 100 else Version.STABLE


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer; seconds to its first text, and between events of a stream; None: it has none.

    `size`: of the request, such as is compared with each other.
    """

    at: float
    size: tuple[bool, int]
    failed: bool
    first_text: float | None = None
    inter_token: float | None = None


@dataclass(slots=True)
class _Stage:
    canary: Canary
    waiting: dict[tuple[Version, tuple[bool, int]], deque[Answered]] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    """By the field of `CanaryEvidence`."""

    def count(self, name: str, canary: float, stable: float, increase_percent: int = 0) -> None:
        """Take one pair; the canary's may be above the stable one's by so much."""
        if canary == stable:
            pair = Pairs(equal=1)
        elif canary > stable * (1 + increase_percent / 100):
            pair = Pairs(worse=1)
        else:
            pair = Pairs(better=1)
        self.pairs[name] = self.pairs.get(name, Pairs()) + pair


class Evidence:
    """What one router has seen of each canary since it has its step and weight."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._stages: dict[tuple[str, str], _Stage] = {}

    def follow(self, models: Iterable[Model]) -> None:
        """Count from zero where revision, step or weight is another; forget what is over."""
        canaries = {model.key: model.canary for model in models if model.canary is not None}
        before = self._stages
        self._stages = {
            key: old if (old := before.get(key)) and old.canary == canary else _Stage(canary)
            for key, canary in canaries.items()
        }

    def add(self, model: tuple[str, str], version: Version, answered: Answered) -> None:
        """Take one answer, and compare it with the newest one of the other revision that waits."""
        stage = self._stages.get(model)
        if stage is None:
            return
        other = Version.STABLE if version is Version.CANARY else Version.CANARY
        waiting = stage.waiting.get((other, answered.size), ())
        if waiting and answered.at - waiting[-1].at <= _WINDOW_SECONDS:
            pair = (waiting.pop(), answered)
            stable, canary = pair if version is Version.CANARY else pair[::-1]
            self._compare(stage, stable, canary)
            return
        line = stage.waiting.setdefault((version, answered.size), deque(maxlen=_WAITING))
        line.append(answered)

    def replayed(
        self, model: tuple[str, str], canary: Canary, kind: RequestKind, *, differs: bool
    ) -> None:
        """Take the answers of both revisions to one request, where the step is still the same."""
        stage = self._stages.get(model)
        if stage is not None and stage.canary == canary:
            stage.count(f"{kind}_answers", canary=differs, stable=False)

    def report(self) -> dict[str, CanaryEvidence]:
        """Return what the operator reads, by namespace and name of the model."""
        return {
            "/".join(key): CanaryEvidence(
                revision=one.canary.revision,
                step=one.canary.step,
                weight=one.canary.weight,
                **one.pairs,
            )
            for key, one in self._stages.items()
        }

    @staticmethod
    def _compare(stage: _Stage, stable: Answered, canary: Answered) -> None:
        stage.count("errors", canary.failed, stable.failed)
        if canary.failed or stable.failed:
            return
        limits = stage.canary
        if canary.first_text is not None and stable.first_text is not None:
            stage.count("first_text", canary.first_text, stable.first_text, limits.first_text)
        if canary.inter_token is not None and stable.inter_token is not None:
            stage.count("inter_token", canary.inter_token, stable.inter_token, limits.inter_token)
