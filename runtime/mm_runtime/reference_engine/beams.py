"""Beam search over one request, as transformers' `generate` does it; it runs no model itself.

A step keeps more continuations than beams, so that the requested number remains when some end.
Scores are sums of log probabilities, divided by the answer's length to a power.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from mm_runtime.serving.generate.request import Beam, BeamOptions
from mm_runtime.serving.prompts.word_tensors import TokenWords


class Branches(NamedTuple):
    """What the next pass reads: for each beam the row it continues, and its token."""

    parents: tuple[int, ...]
    tokens: tuple[int, ...]


class BeamSearch:
    """The beams of one request."""

    def __init__(
        self,
        options: BeamOptions,
        *,
        max_tokens: int,
        end_ids: frozenset[int],
        stop: TokenWords,
    ) -> None:
        self._options = options
        self._max_tokens = max_tokens
        self._end_ids = end_ids
        self._stop = stop
        self._running = [Beam((), ())]
        self._scores = torch.zeros(1, dtype=torch.float32)
        self._ended: list[tuple[float, Beam]] = []
        self.branches = Branches((), ())
        """What the next pass reads."""

    @property
    def answers(self) -> list[Sequence[int]]:
        return [beam.ids for beam in self._running]

    @property
    def best(self) -> tuple[Beam, ...]:
        return tuple(beam for _, beam in self._ended)

    def advance(self, log_probs: torch.Tensor) -> bool:
        """Take log probabilities [beams, vocabulary] of next tokens; return whether it is over."""
        width = self._options.width
        length = len(self._running[0].ids) + 1
        totals = (log_probs + self._scores.to(log_probs.device)[:, None]).reshape(-1)
        kept = min(max(2, 1 + len(self._end_ids)) * width, len(totals))
        values, places = totals.topk(kept)
        # One copy from the device for all that is read of it; float64 holds each place exactly.
        own = log_probs.reshape(-1)[places]
        chosen = torch.stack((values.double(), own.double(), places.double())).T.tolist()
        vocabulary = log_probs.shape[-1]
        full = len(self._ended) == width
        going: list[tuple[float, int, int, float]] = []
        ended: list[tuple[float, Beam]] = []
        for rank, (value, log_prob, place) in enumerate(chosen):
            parent, token = divmod(int(place), vocabulary)
            before = self._running[parent]
            ids = (*before.ids, token)
            cut = self._cut(ids)
            if cut is None:
                going.append((value, parent, token, log_prob))
            elif rank < width and not (full and self._options.early_stopping):
                of_each = (*before.log_probs, log_prob)
                score = value / length**self._options.length_penalty
                ended.append((score, Beam(ids[:cut], of_each)))
        merged = sorted([*self._ended, *ended], key=lambda one: one[0], reverse=True)
        self._ended = merged[:width]
        if not going:
            return True
        going = going[:width]
        self.branches = Branches(
            tuple(parent for _, parent, *_ in going), tuple(token for *_, token, _ in going)
        )
        self._running = [
            Beam(
                (*self._running[parent].ids, token),
                (*self._running[parent].log_probs, log_prob),
            )
            for _, parent, token, log_prob in going
        ]
        self._scores = torch.tensor([value for value, *_ in going], dtype=torch.float32)
        return self._over(going[0][0], length)

    def _over(self, best: float, length: int) -> bool:
        if len(self._ended) < self._options.width:
            return False
        possible = best / length**self._options.length_penalty
        return self._options.early_stopping or possible <= self._ended[-1][0]

    def _cut(self, ids: tuple[int, ...]) -> int | None:
        """Return how many tokens of a beam that ends here are its answer, None if it continues."""
        if ids[-1] in self._end_ids:
            return len(ids) - 1
        matched = [len(word) for word in self._stop if ids[-len(word) :] == word]
        if matched:
            return len(ids) - max(matched)
        return len(ids) if len(ids) >= self._max_tokens else None
