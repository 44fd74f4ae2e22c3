"""PURE: a pattern in the part of regular expressions that every version of xgrammar reads.

The library takes what it does not know for plain letters, or ends with an error that some versions
of TensorRT-LLM answer all running requests with. Its sizes are bounded: it writes repeats out.

Source: cpp/regex_converter.cc of mlc-ai/xgrammar.
"""

from dataclasses import dataclass
from typing import NoReturn

from mm_runtime.gateway.errors import InvalidRequestError

MAX_LETTERS = 4096
"""Of a pattern whose repeats are written out; as many characters as a pattern may have."""

MAX_GROUPS = 48
"""Inside of each other."""

_CLASSES, _CONTROLS = "dws", "nrtfv"
_HEXADECIMAL = {"x": 2, "u": 4}
_QUANTIFIERS = "*+?{"


def plain_pattern(pattern: str, param: str) -> str:
    """Return the pattern, in which a dot matches no line's end.

    Raises:
        InvalidRequestError: something that is not read, with its place.
    """
    reader = _Reader(pattern, param)
    reader.read_all()
    return "".join(reader.written)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the pattern: letters when written out, and whether it may match nothing."""

    letters: int
    empty: bool


class _Reader:
    def __init__(self, pattern: str, param: str) -> None:
        self.pattern, self.param = pattern, param
        self.at = 0
        self.written: list[str] = []

    def read_all(self) -> None:
        """Read the entire pattern."""
        if self._next() == "^":
            self.at += 1  # what is guided is matched from its beginning to its end
        self._alternatives(0)
        if self._next() == "$" and self.at == len(self.pattern) - 1:
            self.at += 1
        if self.at < len(self.pattern):
            self._refuse(f"has {self._next()!r} where nothing of it is read")

    def _alternatives(self, depth: int) -> _Piece:
        if depth > MAX_GROUPS:
            self._refuse(f"has more than {MAX_GROUPS} groups in each other")
        found = [self._sequence(depth)]
        while self._next() == "|":
            self._take()
            found.append(self._sequence(depth))
        return _Piece(sum(one.letters for one in found), any(one.empty for one in found))

    def _sequence(self, depth: int) -> _Piece:
        letters, empty = 0, True
        while self._next() not in {"", "|", ")", "$"}:
            piece = self._repeated(self._atom(depth))
            letters, empty = letters + piece.letters, empty and piece.empty
            if letters > MAX_LETTERS:
                self._refuse(f"has more than {MAX_LETTERS} letters with its repeats written out")
        return _Piece(letters, empty)

    def _atom(self, depth: int) -> _Piece:
        letter = self._next()
        if letter == "(":
            return self._group(depth)
        if letter == "[":
            self._class()
        elif letter == "\\":
            self._escape(_CLASSES + _CLASSES.upper())
        elif letter == ".":
            self.at += 1
            self.written.append("[^\\n]")
        elif letter in "^*+?{":
            self._refuse(f"has {letter!r} where a letter or a group is expected")
        else:
            self._take()
        return _Piece(1, empty=False)

    def _group(self, depth: int) -> _Piece:
        self._take()
        if self._next() == "?":
            if self.pattern[self.at : self.at + 2] != "?:":
                self._refuse("has a group with `(?`: only `(?:` is read")
            self._take(2)
        found = self._alternatives(depth + 1)
        if self._next() != ")":
            self._refuse("has a group without an end")
        self._take()
        return found

    def _repeated(self, piece: _Piece) -> _Piece:
        if self._next() not in set(_QUANTIFIERS):
            return piece
        least, most = self._bounds()
        if self._next() and self._next() in _QUANTIFIERS:
            self._refuse("repeats a repeat; lazy ones are not read")
        if most is None and piece.empty:
            self._refuse("repeats without an end what may be empty")
        return _Piece(piece.letters * max(1, most or least + 1), piece.empty or not least)

    def _bounds(self) -> tuple[int, int | None]:
        letter = self._next()
        if letter != "{":
            self._take()
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[letter]
        end = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at + 1 : end].partition(",")
        numbers = [one for one in (least, most) if one]
        if end < 0 or not least or not all(one.isascii() and one.isdigit() for one in numbers):
            self._refuse("has a `{` that begins no `{n}`, `{n,}` or `{n,m}`: write `\\{`")
        if any(len(one) > len(str(MAX_LETTERS)) for one in numbers):
            self._refuse(f"has more than {MAX_LETTERS} letters with its repeats written out")
        self._take(end + 1 - self.at)
        if not comma:
            return int(least), int(least)
        if most and int(most) < int(least):
            self._refuse("has bounds of a repeat in the wrong order")
        return int(least), int(most) if most else None

    def _class(self) -> None:
        begun = self.at
        self._take(2 if self.pattern[self.at + 1 : self.at + 2] == "^" else 1)
        if self._next() == "]":
            self._refuse("has a class without letters; write `\\]` for the bracket")
        while self._next() != "]":
            if not self._next():
                self.at = begun
                self._refuse("has a class without an end")
            if self._next() == "\\":
                self._escape(_CLASSES)
            elif self._next() == "[":
                self._refuse("has `[` in a class: write `\\[`")
            else:
                self._take()
        self._take()

    def _escape(self, classes: str) -> None:
        letter = self.pattern[self.at + 1 : self.at + 2]
        digits = _HEXADECIMAL.get(letter, 0)
        if digits:
            found = self.pattern[self.at + 2 : self.at + 2 + digits]
            if len(found) < digits or set(found) - set("0123456789abcdefABCDEF"):
                self._refuse(f"has `\\{letter}` without {digits} hexadecimal digits")
        elif not letter or (letter.isalnum() and letter not in classes + _CONTROLS):
            self._refuse(f"has `\\{letter}`, which is not read here")
        self._take(2 + digits)

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, count: int = 1) -> None:
        self.written.append(self.pattern[self.at : self.at + count])
        self.at += count

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidRequestError(
            f"`{self.param}`: the pattern {why} (at character {self.at + 1}).",
            param=self.param,
            code="unsupported_pattern",
        )
