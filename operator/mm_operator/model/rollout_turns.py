"""Rollouts that no user caused go by turns: what a model says of its own, and what it is granted.

Another runtime image, or another way to plan, changes the pods of every model at one moment.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RolloutTurn:
    """One model's part in it: whether its pods should change and do not yet, or do in its turn.

    `failure`: what is wrong with its rollout. `use`: requests a second.
    """

    waits: bool = False
    rolls: bool = False
    failure: str = ""
    use: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model is granted; the failed rollout of `failing` (namespace/name) stops others."""

    granted: bool
    most: int
    failing: str = ""
