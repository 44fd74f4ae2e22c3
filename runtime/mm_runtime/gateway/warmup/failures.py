"""PURE: when a warm-up that fails counts as failed, and not as one that is being tried."""

from mm_api.documents.server_state import PROBLEM_CHARACTERS
from mm_api.quoted_text import steady

ALIKE = 3
"""Failures of the same words one after the other: a fourth try would not be luckier."""

ANY = 10
"""Failures of any words one after the other: an engine may answer otherwise each time."""


class Failures:
    """Those since the warm-up passed."""

    def __init__(self) -> None:
        self._count = self._alike = 0
        self._words = ""
        self.problem = ""
        """Why it fails each time; empty: it may still pass. It stays while words differ."""

    def add(self, words: str) -> None:
        words = steady(words[:PROBLEM_CHARACTERS])
        self._count += 1
        self._alike = self._alike + 1 if words == self._words else 1
        self._words = words
        if self._alike >= ALIKE or (self._count >= ANY and not self.problem):
            self.problem = words
