"""What the edge did with the children of one plan."""

from dataclasses import dataclass

from mm_operator.model.objects import Ref


@dataclass(frozen=True, slots=True)
class StageError:
    """An error of one stage of the reconcile: observe, plan, apply, prune, status.

    `reason` says what `mm_operator.cluster.refusals` recognises, or NameTaken for an object that is
    not ours; else ClusterError. `message` is a sentence without generated names or times.
    """

    stage: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the edge did with the children of one plan."""

    applied: tuple[Ref, ...] = ()
    """Objects that were wanted; those that needed no write included."""
    changed: tuple[Ref, ...] = ()
    deleted: tuple[Ref, ...] = ()
    errors: tuple[StageError, ...] = ()
