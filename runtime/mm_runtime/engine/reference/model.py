"""What the engine asks of a model: prompts into slots, one token in many slots."""

from collections.abc import Sequence
from typing import Protocol

import torch

from mm_runtime.engine.reference.beams import Branches
from mm_runtime.engine.reference.request import Request


class SlotModel(Protocol):
    """Weights, and what each running request has computed so far. One thread owns it."""

    vocabulary_size: int

    def check(self, request: Request) -> None:
        """Refuse a request that this model can never serve.

        Raises:
            RequestError: what is wrong and what was expected.
        """

    def prompt_length(self, request: Request) -> int:
        """Return the positions that the request's prompt takes in a slot."""

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        """Give a slot to a request; return its prompt, one row a position, for `prefill`."""

    def prefill(self, slot: int, start: int, prompt: torch.Tensor) -> torch.Tensor:
        """Run some rows of a prompt; return one row of states a position, for `logits`.

        Args:
            slot: whose.
            start: position of the first row; earlier ones are in the slot already.
            prompt: rows of what `begin` returned.
        """

    def decode(self, tokens: Sequence[int | Branches], positions: Sequence[int]) -> torch.Tensor:
        """Run one token in each of the first slots, in one with beams one of each beam.

        Returns:
            float32 logits [rows, vocabulary], slot by slot. Models whose `check` refuses beams
            never see any.
        """

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [n, vocabulary] of states [n, ...]."""

    def move(self, source: int, target: int, length: int) -> None:
        """Give the first `length` positions of one slot, and all it knows, to another."""
