"""The rules of one request for its next token, as plain values of the processor.

What a step does with the rules of all its rows is in `choosing`: it computes where the logits are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.serving.device import CPU
from mm_runtime.serving.generate.request import Request, Sampling

Ids = NDArray[np.int64]

NO_IDS: Ids = np.zeros(0, np.int64)
NO_VALUES: NDArray[np.float32] = np.zeros(0, np.float32)

_GOLDEN, _FIRST, _SECOND, _WORD = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 2**64
"""SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014)."""


@dataclass(frozen=True)
class Rules:
    """How one row's next token is chosen. The defaults: the likeliest one."""

    bias: torch.Tensor | None = None
    """Added to the logits, [vocabulary], of the device."""

    seen: Ids = field(default_factory=lambda: NO_IDS)
    """Tokens of prompt and answer, for the penalty of repetition; several times is as once."""

    penalised: Ids = field(default_factory=lambda: NO_IDS)
    """Tokens of the answer, each once."""

    penalties: NDArray[np.float32] = field(default_factory=lambda: NO_VALUES)
    """Subtracted from their logits."""

    never: Ids = field(default_factory=lambda: NO_IDS)
    """Tokens that must not come next."""

    allowed: NDArray[np.bool_] | None = None
    """[vocabulary]: tokens that may come next; None: all."""

    together_from: int | None = None
    """Tokens from this one on, likelier together than any other: one of them comes next."""

    draw: float | None = None
    """From 0 to 1: which of the kept tokens it is, by their mass; None: the likeliest."""

    sampling: Sampling = field(default_factory=Sampling)


class TokenChooser:
    """The rules of one request, from one token of its answer to the next."""

    def __init__(self, request: Request, vocabulary_size: int, device: torch.device = CPU) -> None:
        """Take what stays the same; ids of the prompt table count as no token."""
        self._request, self._size = request, vocabulary_size
        self._bias = None
        if request.bias is not None:
            self._bias = torch.from_numpy(request.bias.copy()).to(device)
        self._prompt: Ids = np.array(
            [token for token in request.prompt if token < vocabulary_size],
            np.int64,
        )
        sampling = request.sampling
        self._penalised = sampling.presence_penalty != 0.0 or sampling.frequency_penalty != 0.0
        self.plain = (
            sampling.greedy
            and request.bias is None
            and request.guide is None
            and not request.bad
            and sampling.min_tokens == 0
            and sampling.repetition_penalty == 1.0
            and not self._penalised
        )
        """The likeliest token is always right: all such requests of a step share one argmax."""

    def rules(self, answer: Sequence[int]) -> Rules:
        """Return the rules for the token after these; the same ones whenever it is called.

        Raises:
            ValueError: a token that must not come next is none of the vocabulary's. On a GPU such
                an index would break the process, and all requests with it.
        """
        sampling, seen = self._request.sampling, NO_IDS
        if sampling.repetition_penalty != 1.0:
            seen = np.concatenate((self._prompt, np.array(answer, np.int64)))
        penalised, penalties = NO_IDS, NO_VALUES
        if self._penalised:
            penalised, counts = np.unique(np.array(answer, np.int64), return_counts=True)
            penalties = sampling.presence_penalty + sampling.frequency_penalty * counts
        never = self._never(answer)
        if never.size and not 0 <= int(never.min()) <= int(never.max()) < self._size:
            raise ValueError(f"tokens {never.tolist()} are not all below {self._size}")
        guide = self._request.guide
        return Rules(
            bias=self._bias,
            seen=seen,
            penalised=penalised,
            penalties=penalties.astype(np.float32),
            never=never,
            allowed=None if guide is None else guide.allowed(answer),
            together_from=None if guide is None else guide.together_from,
            draw=None if sampling.greedy else drawn(sampling.seed, len(answer)),
            sampling=sampling,
        )

    def _never(self, answer: Sequence[int]) -> Ids:
        found = [
            word[-1]
            for word in self._request.bad
            if tuple(answer[len(answer) - len(word) + 1 :]) == word[:-1]
        ]
        if len(answer) < self._request.sampling.min_tokens:
            found += self._request.end_ids
        return np.array(found, np.int64)


def drawn(seed: int, place: int) -> float:
    """Return a number from 0 to 1 that follows from a seed and a place of an answer alone.

    So an answer by a seed is the same alone, in any company, and when a pass is tried again.
    """
    word = _mixed(_mixed(seed) + (place + 1) * _GOLDEN)
    return (word >> 11) * 2.0**-53


def _mixed(word: int) -> int:
    word = (word + _GOLDEN) % _WORD
    word = (word ^ (word >> 30)) * _FIRST % _WORD
    word = (word ^ (word >> 27)) * _SECOND % _WORD
    return word ^ (word >> 31)
