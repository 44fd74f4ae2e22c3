"""Rollouts that no user caused go by turns: what a model says of its own, and what it is granted.

Another runtime image, or another way to plan, changes the pods of every model at one moment.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RolloutTurn:
    """One model's part in it.

    Attributes:
        waits: its pods should change and do not yet.
        rolls: its rollout, begun in its turn, is not complete.
        failure: what is wrong with that one; empty: nothing.
        use: how much it is used, in requests a second.
    """

    waits: bool = False
    rolls: bool = False
    failure: str = ""
    use: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model is granted.

    Attributes:
        granted: it may begin, or began.
        most: models that roll at a time.
        failing: the model, as `namespace/name`, whose failed rollout stops the others.
    """

    granted: bool
    most: int
    failing: str = ""
