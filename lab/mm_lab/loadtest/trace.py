"""Traces from CSV files, of two kinds: single requests, or rates of windows.

- With a header that has `seconds`: one line a request, optionally `images`, `words`, `max_tokens`.
- Without a header: one line a window: start in seconds, requests per second, and optionally the
  coefficient of variation of the gaps; further columns are ignored. ServeGen's client traces
  (github.com/alibaba/ServeGen) look like this.
"""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from mm_lab.loadtest.arrivals import Due, Window, windows

_OPTIONAL = ("images", "words", "max_tokens")


class TraceError(ValueError):
    """The file is no trace; the message names the line. The command line prints it and exits 2."""


def read_trace(
    path: Path, *, speed: float, scale: float, seconds: float, seed: int
) -> Iterator[Due]:
    """Yield the requests of a trace, its first line at second 0.

    Args:
        path: the CSV file.
        speed: how many seconds of the trace pass in one of the run.
        scale: by what the rate of windows is multiplied; single requests are what they are.
        seconds: length of the run.
        seed: of what the windows leave open.

    Raises:
        TraceError: the file cannot be read, or a line is not as described above.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read as a CSV file: {error}") from error
    if not rows:
        raise TraceError(f"{path} is empty: give a line for each request or window")
    if "seconds" in rows[0]:
        if scale != 1:
            raise TraceError(f"{path} lists single requests, so their rate cannot be multiplied")
        yield from _requests(path, rows, speed, seconds)
        return
    found = [_window(path, number, row) for number, row in enumerate(rows, start=1)]
    begin = found[0].start
    stretched = [
        Window((one.start - begin) / speed, one.rate * speed * scale, one.variation)
        for one in found
    ]
    yield from windows(stretched, seconds, seed)


def _requests(path: Path, rows: list[list[str]], speed: float, seconds: float) -> Iterator[Due]:
    header = rows[0]
    begin: float | None = None
    last = 0.0
    for number, row in enumerate(rows[1:], start=2):
        fields = dict(zip(header, row, strict=False))
        at = _number(path, number, "seconds", fields.get("seconds", ""))
        begin = at if begin is None else begin
        if at - begin < last:
            raise TraceError(f"{path}:{number}: {at:g} s is before the line above: sort the trace")
        last = at - begin
        if last / speed >= seconds:
            return
        images, words, max_tokens = (
            int(_number(path, number, name, fields[name])) if fields.get(name) else None
            for name in _OPTIONAL
        )
        yield Due(last / speed, images, words, max_tokens)


def _window(path: Path, number: int, row: list[str]) -> Window:
    columns = [*row, "", ""][:3]
    start = _number(path, number, "start", columns[0])
    rate = _number(path, number, "requests per second", columns[1])
    variation = _number(path, number, "variation", columns[2]) if columns[2] else 1.0
    return Window(start, rate, variation or 1.0)


def _number(path: Path, line: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < math.inf:
        raise TraceError(f"{path}:{line}: {name} is {text!r}: expected a number, 0 or more")
    return value
