"""A request while it runs: how much of its prompt is done and what it has answered.

A token that could be the start of a stop sequence is held back until it is clear that it is not, so
no client ever sees part of a stop word.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.reference_engine.choosing import NOTHING, Chosen
from mm_runtime.reference_engine.sampling import Rules, TokenChooser
from mm_runtime.serving.generate.request import Finish, Piece, Request, Sink
from mm_runtime.serving.prompts.word_tensors import TokenWords


@dataclass(frozen=True)
class Emission:
    """Half-open range of answer tokens to give out now, and why the answer ended if it did."""

    start: int
    end: int
    finish: Finish | None


class Progress:
    """The tokens of one answer so far."""

    def __init__(self, *, max_tokens: int, end_ids: frozenset[int], stop: TokenWords) -> None:
        self.ids: list[int] = []
        self._given = 0
        self._max_tokens = max_tokens
        self._end_ids = end_ids
        self._stop = stop

    def accept(self, token: int) -> Emission:
        """Add a token and say what to give out.

        An end token is not added. When a stop sequence is complete, the longest one that matches
        is cut off.
        """
        if token in self._end_ids:
            return self._emit(len(self.ids), Finish.STOP)
        self.ids.append(token)
        matched = [len(word) for word in self._stop if self._ends_with(word)]
        if matched:
            return self._emit(len(self.ids) - max(matched), Finish.STOP)
        if len(self.ids) >= self._max_tokens:
            return self._emit(len(self.ids), Finish.LENGTH)
        return self._emit(len(self.ids) - self._held_back(), None)

    def _emit(self, end: int, finish: Finish | None) -> Emission:
        emission = Emission(self._given, end, finish)
        self._given = end
        return emission

    def _held_back(self) -> int:
        starts = (word[:length] for word in self._stop for length in range(1, len(word)))
        return max((len(start) for start in starts if self._ends_with(start)), default=0)

    def _ends_with(self, word: tuple[int, ...]) -> bool:
        return tuple(self.ids[-len(word) :]) == word


class Running:
    """One request in one slot."""

    def __init__(
        self,
        request: Request,
        sink: Sink,
        prompt: torch.Tensor,
        chooser: TokenChooser,
        *,
        max_length: int,
        recalled: int = 0,
    ) -> None:
        """Start with nothing of the prompt done but what is known from earlier requests.

        `prompt`: what the model reads first, one row a position. `max_length`: positions a slot
        has; it shortens the answer when the request wants more. `recalled`: first positions of the
        prompt that its slot holds already.
        """
        self.request = request
        self.sink = sink
        self.prompt = prompt
        self.chooser = chooser
        self.prefilled = self._recalled = recalled
        self.most_rows = 0
        """Rows of the prompt in one pass, where there was no memory for more; 0: there was."""

        self.length = recalled
        """Positions in the slot."""

        self.last_token = 0
        """Chosen but not yet run through the model."""

        self.done = False
        """The last piece was sent."""

        self._most = most = min(request.max_tokens, max_length - len(prompt))
        self._progress = Progress(max_tokens=most, end_ids=request.end_ids, stop=request.stop)
        self._log_probs: list[float] = []
        self._likeliest: list[tuple[tuple[int, float], ...]] = []
        """For each token those at its place."""

        self._generation_logits: list[NDArray[np.float32]] = []

    @property
    def answer(self) -> list[int]:
        return self._progress.ids

    @property
    def continues(self) -> bool:
        """Return whether one more token does not complete it, unless it is the one that ends it."""
        return len(self.answer) + 1 < self._most

    @property
    def reads_logits(self) -> bool:
        """Return whether more than the likeliest token is read of its logits."""
        wanted = self.request.wanted
        return not self.chooser.plain or wanted.log_probs or wanted.generation_logits

    def rules(self) -> Rules | None:
        """Return the rules for its next token; None: the likeliest one."""
        return None if self.chooser.plain else self.chooser.rules(self.answer)

    def advance(self, logits: torch.Tensor | None, chosen: Chosen) -> bool:
        """Take the next token, give out what may be given out; return whether that completes it.

        `logits`: [vocabulary], of which it was chosen; None: it does not read any
        (`reads_logits`).
        """
        if chosen.token == NOTHING:
            raise ValueError("no token is left to draw from: bias and prohibitions leave none")
        self.last_token = token = chosen.token
        wanted = self.request.wanted
        if wanted.log_probs:
            self._log_probs.append(chosen.log_prob)
            self._likeliest.append(chosen.likeliest)
        if wanted.generation_logits and logits is not None:
            self._generation_logits.append(logits.cpu().numpy())
        emission = self._progress.accept(token)
        self.done = done = emission.finish is not None
        if done or emission.end > emission.start:
            part = slice(emission.start, emission.end)
            self.sink.send(
                Piece(
                    ids=tuple(self.answer[part]),
                    finish=emission.finish,
                    log_probs=tuple(self._log_probs[part]),
                    cumulative_log_prob=sum(self._log_probs[: emission.end]),
                    likeliest=tuple(one for place in self._likeliest[part] for one in place),
                    generation_logits=_joined(self._generation_logits[part]),
                    reused=self._recalled,
                )
            )
        return done


def _joined(parts: list[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    return np.concatenate([np.atleast_2d(part) for part in parts]) if parts else None
