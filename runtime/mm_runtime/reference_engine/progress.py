"""When an answer ends, and which of its tokens may be given out already.

A token that could be the start of a stop sequence is held back until it is clear that it is not, so
no client ever sees part of a stop word.
"""

from dataclasses import dataclass

from mm_runtime.serving.generate.request import Finish
from mm_runtime.serving.prompts.words import TokenWords


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
