"""What the engine requires of a model: prompts into slots, one token in many slots."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from mm_runtime.serving.generate.request import PrefixCounts, Request


@dataclass(frozen=True)
class Part:
    """Some rows of a prompt."""

    start: int
    """Position of the first row; earlier ones are in the slot already."""

    rows: torch.Tensor
    """Rows that `begin` returned."""

    slot: int | None = None
    """Slot of the prompt, in a pass that is begun ahead; None: right after the decoding ones."""

    def slot_after(self, decoding: int) -> int:
        return decoding if self.slot is None else self.slot


@dataclass(frozen=True)
class Likeliest:
    """Logits and the likeliest tokens that a pass computed; they last until the next one begins.

    Of each decoding request, then of the prompt whose last row the pass read.
    """

    logits: torch.Tensor
    """[requests, vocabulary], in the dtype of the model."""

    tokens: torch.Tensor
    """int64 [requests], on the device of the model."""

    fetch: Callable[[int], Callable[[], list[int]]]
    """Begins to copy the first tokens; returns what waits for that and returns them."""


@dataclass(frozen=True)
class Passed:
    """What a pass computed; `logits` makes logits of either."""

    decoded: torch.Tensor
    """One row of states for each decoding slot."""

    read: torch.Tensor
    """One row of states for each row of the part."""

    broken: Mapping[int, Exception] = field(default_factory=dict)
    """Slot -> why its row could not be computed; what stands in its place is nothing to read. Of
    models whose requests pass one after the other."""

    likeliest: Likeliest | None = None
    """None: the pass has computed states alone."""


Follow = Callable[[torch.Tensor, Sequence[int], Part | None], Passed]
"""As `SlotModel.run`, with tokens int64 [slots] of the model's device; below 0: any will do."""


class SlotModel(Protocol):
    """Weights, and what each running request has computed so far. One thread owns it.

    What has a body here is that of a model that keeps nothing and prepares nothing.
    """

    vocabulary_size: int

    repeatable: bool = False
    """Whether a pass that failed may be run again, with a smaller part or fewer tokens."""

    @property
    def launches(self) -> bool:
        """Return whether `run` is one launch of a device, which computes while others do."""
        return False

    @property
    def follow(self) -> Follow | None:
        """Return what begins a pass whose tokens the processor has not seen; None: nothing does.

        Of models whose `move` copies nothing: what a pass that was begun writes moves as well.
        """
        return None

    def check(self, request: Request) -> None:
        """Refuse a request that this model can never serve, by a `RequestError`."""

    def prompt_length(self, request: Request) -> int:
        """Return the positions that the request's prompt takes in a slot."""

    def prepare(self, request: Request | None) -> None:
        """Make the prompt of the request that is likely to begin next; None: of none.

        Called while a pass computes, where `launches`: `begin` is then done at once.
        """
        del request

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        """Give a slot to a request; return its prompt, one row a position, for `run`."""

    def cut(self, slot: int, start: int, rows: int) -> int:
        """Return how many rows of a prompt a part has that was meant to have `rows`, 1 or more.

        Where images are read with the prompt that holds them, it has all rows. `start`: its first
        row that was not read yet.
        """
        del slot, start
        return rows

    @property
    def prefixes(self) -> PrefixCounts | None:
        """Return what was found of earlier requests; None: nothing of them is kept."""
        return None

    def recall(self, slot: int, request: Request) -> int:
        """Fill a slot with what is kept of requests that began alike; return its positions.

        They need not be computed: fewer than the prompt has.
        """
        del slot, request
        return 0

    def keep(self, slot: int, request: Request, answer: Sequence[int], length: int) -> None:
        """Keep what a slot holds for later requests.

        `request`: whose prompt was read, at least in part. `answer`: its tokens so far. `length`:
        positions that were computed, of the prompt and then of the answer.
        """
        del slot, request, answer, length

    def run(
        self, tokens: Sequence[int], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        """Run one token in each of the first slots, and part of a prompt in its slot."""

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [n, vocabulary] of states [n, ...]."""

    def move(self, source: int, target: int, length: int) -> None:
        """Give the first `length` positions of one slot, and all it knows, to another."""

    def release_unused(self) -> None:
        """Give memory of the device back that nothing uses; a pass has found none left."""
