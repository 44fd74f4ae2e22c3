"""PURE: which lines of the output of a server or a tool say why it ended.

The last lines are tables of models, backends and options, or what each rank of mpirun says of the
others, and the cause is pages above them. The first error is the cause; later ones follow from it.
"""

import re
from collections.abc import Sequence
from typing import Final

from mm_api.quoted_text import steady

MOST = 3
"""Errors that are kept."""

CHARACTERS = 600
"""Length of each: three of them, and the text around them, fit into a termination message."""

LAST_LINES = 10
"""Quoted where no line is an error; as many as a condition quotes of a Job."""

_LINE_CHARACTERS = 200

_TRACEBACK: Final = "Traceback (most recent call last):"

_TRACEBACK_LINES = 500
"""After which a traceback is over, whatever its lines look like."""

_PREFIX: Final = re.compile(
    r"^(?:\[\d+,\d+\]<\w+>:\s?)?"  # of mpirun: which rank says it
    r"(?:[EF]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] )?"  # of glog
)

_EXCEPTION: Final = re.compile(r"(?:\w+\.)*[A-Z]\w*(?::|$)")
"""How the line begins that ends a traceback."""

_ERROR: Final = re.compile(
    r"^(?:\[\d+,\d+\]<\w+>:\s?)?[EF]\d{4} \d\d:"
    r"|\[(?:ERROR|E|CRITICAL|FATAL|F)\]"
    r"|\b(?:ERROR|CRITICAL|FATAL)\b"
    r"|^(?:[-\w./]+: )?(?:fatal )?[Ee]rror: "
    r"|^(?:\w+\.)*\w+(?:Error|Exception): "
    r"|^Fatal Python error: "
    r"|^terminate called|^\s*what\(\):|^Segmentation fault|^Signal \(\d+\) received"
    r"|[Oo]ut of memory|cannot open shared object file|undefined symbol|^Killed$"
)

_NO_CAUSE: Final = re.compile(
    r"\b[IW]\d{4} \d\d:|^(?:(?!ERROR|FATAL|CRITICAL|Error).){0,80}?\b(?:DEBUG|INFO|WARN(?:ING)?)\b"
    r"|failed to load all models|depends on '.*' which has no loaded"
    r"|unable to create stream for|CudaDriverHelper has not been|Failed to initialize NVML"
)
"""Lines of another level, what comes of other errors, or of a machine without a GPU, where models
run all the same."""

_VALIDATION: Final = re.compile(r"\d validation errors? for \w+$")

_DIGIT: Final = re.compile(r"\d")

_ROW: Final = re.compile(r"\|\s*(\S+)\s*\|\s*\S+\s*\|\s*UNAVAILABLE: (.*?)\s*\|?$")
"""Row of Triton's table of models, of one that could not be loaded."""


class FirstErrors:
    """Takes the lines of one process; keeps the first errors."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._rows: list[str] = []
        self._inside = 0
        self._before = ""
        self._ignored = False
        self._open = False

    def add(self, line: str) -> None:
        """Take a line."""
        if len(self._found) >= MOST and not self._open:
            return
        text = _PREFIX.sub("", line)
        if _TRACEBACK in text:
            self._inside, self._before = _TRACEBACK_LINES, text[: text.index(_TRACEBACK)]
        elif self._inside:
            text = _without(self._before, text)
            ends = not text.startswith((" ", "\t")) and _EXCEPTION.match(text)
            self._inside = 0 if ends else self._inside - 1
            if ends and not self._ignored:
                self._keep(self._found, text)
            self._ignored = self._ignored and not ends
        elif text.startswith("Exception ignored in"):
            self._ignored = True
        elif self._open and (text.startswith((" ", "\t")) or _VALIDATION.search(self._found[-1])):
            # What `Error(s) in loading state_dict:` is about follows below. pydantic names
            # the field in a line of its own, before what is wrong with it.
            self._found[-1] = f"{self._found[-1]} {text.strip()}"[:CHARACTERS]
            self._open = not text.startswith((" ", "\t"))
        elif row := _ROW.match(text):
            self._keep(self._rows, f"model {row[1]}: {row[2]}")
        elif _ERROR.search(line) and not _NO_CAUSE.search(line):
            self._keep(self._found, text)

    def _keep(self, kept: list[str], text: str) -> None:
        text = steady(text[:CHARACTERS]).strip(' "')
        if len(kept) < MOST and not any(text in one for one in kept):
            kept.append(text)
            more_follows = text.endswith(":") or _VALIDATION.search(text)
            self._open = kept is self._found and bool(more_follows)

    @property
    def found(self) -> list[str]:
        return self._found or self._rows

    def quoted(self, last_lines: Sequence[str]) -> str:
        """Return how a message about the end continues: with errors, else with the last lines."""
        if self.found:
            return ": " + "\n  ".join(self.found)
        if not last_lines:
            return ""
        lines = [line[:_LINE_CHARACTERS] for line in last_lines[-LAST_LINES:]]
        return "; last lines:\n  " + "\n  ".join(lines)


def _without(before: str, line: str) -> str:
    both = zip(_DIGIT.sub("0", before), _DIGIT.sub("0", line), strict=False)
    shared = next((at for at, (one, other) in enumerate(both) if one != other), len(before))
    return line[before[:shared].rfind(" ") + 1 :]
