"""Counts the steps of a matcher that backtracks, as Python's does: no clock, no machine."""

import re
from collections.abc import Callable, Sequence
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any


class Steps:
    """Steps of a search for all matches of a pattern in a text; patterns with `(?i:...)` too."""

    def __init__(self, pattern: str, text: str) -> None:
        self.count, self._text = 0, text
        tree, at = list(_parser.parse(pattern, re.ASCII)), 0
        while at <= len(text):
            self._end = None
            self._match(tree, at, self._ended)
            at = max(at + 1, self._end or 0)

    def _ended(self, at: int) -> bool:
        self._end = at
        return True

    def _match(self, ops: Sequence[Any], at: int, then: Callable[[int], bool]) -> bool:
        if not ops:
            return then(at)
        self.count += 1
        (kind, argument), rest = ops[0], ops[1:]
        if kind is _constants.BRANCH:
            return any(self._match([*one, *rest], at, then) for one in argument[1])
        if kind is _constants.SUBPATTERN:
            inner = list(argument[3])
            return self._match(inner, at, lambda end: self._match(rest, end, then))
        if kind is _constants.MAX_REPEAT:
            return self._repeat(argument, at, lambda end: self._match(rest, end, then))
        width = 0 if kind is _constants.AT else 1
        fits = _single(kind, repr(argument), (kind, argument)).match(self._text, at)
        return fits is not None and self._match(rest, at + width, then)

    def _repeat(self, argument: Any, at: int, then: Callable[[int], bool]) -> bool:
        least, most, inner = argument
        body = list(inner)
        ends = [at]
        if len(body) == 1 and body[0][0] in {_constants.IN, _constants.LITERAL, _constants.ANY}:
            while len(ends) <= most and self._match(body, ends[-1], lambda _: True):
                ends.append(ends[-1] + 1)
            return any(then(end) for end in reversed(ends[least:]))

        def again(count: int, here: int) -> bool:
            def on(end: int) -> bool:
                return end > here and again(count + 1, end)

            return (count < most and self._match(body, here, on)) or (count >= least and then(here))

        return again(0, at)


_KINDS: dict[tuple[object, str], re.Pattern[str]] = {}


def _single(kind: object, spelt: str, node: Any) -> re.Pattern[str]:
    """Return what matches one character, or a place between two; letters of either case."""
    if (kind, spelt) not in _KINDS:
        state = _parser.State()
        state.str, state.flags = "", re.ASCII | re.IGNORECASE
        _KINDS[kind, spelt] = _compiler.compile(_parser.SubPattern(state, [node]), state.flags)
    return _KINDS[kind, spelt]
