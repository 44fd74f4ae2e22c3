"""PURE: the calls of tools in an answer, while its text comes.

What cannot be read as a call stays text: nothing that a model says is lost.
"""

import json
import re
from dataclasses import dataclass

from mm_runtime.gateway.api.stops import overlap
from mm_runtime.gateway.api.tool_dialects import ToolDialect

_HEAD = re.compile(
    r'[\s,;]*\{\s*"name"\s*:\s*"([^"\\]{1,256})"\s*,\s*"(?:arguments|parameters)"\s*:\s*'
    r"(?=\{)"
)
"""Begins a call, up to its arguments."""

_MOST_HEAD = 512
"""Characters within which it is found; a call of another order is read when it is complete."""

_TAIL = re.compile(r'\s*(?:,\s*"id"\s*:\s*"[^"]*"\s*)?\}')
"""Ends a call, behind its arguments."""

_NEXT = re.compile(r"\s*[,;]\s*(?=\{)")
_MOST_TAIL = 256


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
"""Reads JSON alone: what Python reads besides are NaN and infinity, which clients cannot read."""


@dataclass(frozen=True, slots=True)
class Said:
    """Text outside of calls."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call of a function."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Some more of the JSON of a call's arguments."""

    index: int
    text: str


Part = Said | CallBegan | CallArguments


class CallReader:
    """Reads one answer; `calls`: how many have begun."""

    def __init__(self, dialect: ToolDialect, *, most: int | None = None) -> None:
        """Begin an answer; calls after the first `most` are left out."""
        self._dialect = dialect
        self._most = most
        self._text = ""
        self._step = self._seek if dialect.opening else self._begin
        self._found: list[Part] = []
        self._object = _ObjectEnd()
        self._opened = ""
        """What was read of a call before its head."""

        self._is_behind_call = False
        """Nothing was said since a call: blanks up to the next one are none of the answer's."""

        self.calls = 0

    def push(self, text: str) -> list[Part]:
        self._text += text
        while self._step():
            pass
        return self._taken()

    def end(self) -> list[Part]:
        if self._step in (self._list, self._call, self._complete):
            self._read_complete(self._text)
        elif self._step in (self._seek, self._begin) and not (
            self._is_behind_call and not self._text.strip()
        ):
            self._say(self._text)
        self._text = ""
        return self._taken()

    def _taken(self) -> list[Part]:
        found, self._found = self._found, []
        return found

    def _say(self, text: str) -> None:
        if text:
            self._found.append(Said(text))
            self._is_behind_call = False

    def _begin(self) -> bool:
        """Find out whether the answer is a call: it begins with a brace, or it never is."""
        begun = self._text.lstrip()
        if not begun:
            return False
        self._step = self._call if begun[0] == "{" else self._rest
        return True

    def _rest(self) -> bool:
        self._say(self._text)
        self._text = ""
        return False

    def _seek(self) -> bool:
        opening = self._dialect.opening
        before, found, after = self._text.partition(opening)
        held = 0 if found else overlap(before, opening)
        before = before[: len(before) - held]
        if self._is_behind_call and not before.strip():
            if not found:
                return False
            before = ""
        self._say(before)
        if not found:
            self._text = self._text[len(before) :]
            return False
        self._text, self._opened = after, opening
        self._step = self._list if self._dialect.listed else self._call
        return True

    def _list(self) -> bool:
        begun = self._text.lstrip()
        if not begun:
            return False
        if begun[0] == "[":
            self._opened += "["
            self._text = begun[1:]
        self._step = self._call
        return True

    def _call(self) -> bool:
        if self.calls == self._most:
            self._step = self._dropped
            return True
        if (head := _HEAD.match(self._text)) is not None:
            self._found.append(CallBegan(self.calls, head[1]))
            self.calls += 1
            self._is_behind_call = True
            self._text = self._text[head.end() :]
            self._object = _ObjectEnd()
            self._step = self._arguments
            return True
        closing = self._dialect.closing
        if len(self._text) > _MOST_HEAD or (closing and closing in self._text):
            self._step = self._complete
            return True
        return False

    def _complete(self) -> bool:
        closing = self._dialect.closing
        if not closing or closing not in self._text:
            return False
        inside, _, self._text = self._text.partition(closing)
        self._read_complete(inside, closing)
        self._step = self._seek
        return True

    def _read_complete(self, text: str, closing: str = "") -> None:
        """Read a call of which all is there, or make it text."""
        try:
            call, _ = _DECODER.raw_decode(text.lstrip())
            name, arguments = call["name"], call.get("arguments", call.get("parameters"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            name = arguments = None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            self._say(f"{self._opened}{text}{closing}")
            return
        self._found.append(CallBegan(self.calls, name))
        self._found.append(CallArguments(self.calls, json.dumps(arguments, ensure_ascii=False)))
        self.calls += 1
        self._is_behind_call = True

    def _arguments(self) -> bool:
        size = self._object.find(self._text)
        if size:
            self._found.append(CallArguments(self.calls - 1, self._text[:size]))
        self._text = self._text[size:]
        if not self._object.complete:
            return False
        self._step = self._tail
        return True

    def _tail(self) -> bool:
        closing = self._dialect.closing
        if closing:
            _, found, after = self._text.partition(closing)
            if not found:
                self._text = self._text[-len(closing) :]
                return False
            self._text, self._step = after, self._seek
            return True
        tail = _TAIL.match(self._text)
        if tail is None:
            if len(self._text) > _MOST_TAIL:
                self._step = self._dropped
            return False
        self._text, self._step = self._text[tail.end() :], self._between
        return True

    def _between(self) -> bool:
        if (found := _NEXT.match(self._text)) is not None:
            self._text, self._step = self._text[found.end() :], self._call
            return True
        if self._text.strip(" \n\t,;"):
            self._step = self._dropped
        return False

    def _dropped(self) -> bool:
        self._text = ""
        return False


class _ObjectEnd:
    """Finds the brace that ends a JSON object, which comes piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False
        self.complete = False

    def find(self, text: str) -> int:
        """Return how many characters of a piece belong to the object."""
        for place, letter in enumerate(text):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif letter == "\\":
                    self._escaped = True
                elif letter == '"':
                    self._in_string = False
            elif letter == '"':
                self._in_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.complete = True
                    return place + 1
        return len(text)
