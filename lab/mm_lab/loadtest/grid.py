"""Closed loops one after another: each number of users with each length of texts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from mm_lab.loadtest.mix import MixError
from mm_lab.loadtest.report import BenchReport

Cell = tuple[int, int]
"""Users, and filler words before the prompt."""

_WIDTH: Final = 12


@dataclass(frozen=True, slots=True)
class Grid:
    """What `--grid` says."""

    users: tuple[int, ...]
    words: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "Grid":
        """Read `USERS,...xWORDS,...`.

        Raises:
            MixError: the text is none.
        """
        users, cross, words = text.partition("x")
        try:
            found = cls(*(tuple(map(int, part.split(","))) for part in (users, words)))
        except ValueError:
            found = cls((), ())
        if not cross or min(found.users, default=0) < 1 or min(found.words, default=-1) < 0:
            raise MixError(
                f"{text!r} is no grid: write numbers of users, x, and numbers of words, such as "
                "1,4,8x0,64,256"
            )
        return found

    @property
    def cells(self) -> list[Cell]:
        """All pairs, those of one number of users together."""
        return [*product(self.users, self.words)]


def as_table(reports: Mapping[Cell, BenchReport]) -> str:
    """Return a table of each measure: a line for each length, a column for each number of users."""
    first = next(iter(reports.values()))
    lines = [f"{first.model} at {first.endpoint}: users across, words of a prompt down"]
    for title, measure in _MEASURES.items():
        lines += ["", *_table(title, measure, reports)]
    return "\n".join(lines)


def _table(
    title: str, measure: Callable[[BenchReport], float | None], reports: Mapping[Cell, BenchReport]
) -> Iterator[str]:
    users = dict.fromkeys(one for one, _ in reports)
    yield f"  {title:<28}" + "".join(f"{one:>{_WIDTH}}" for one in users)
    for words in dict.fromkeys(one for _, one in reports):
        values = (measure(reports[one, words]) for one in users)
        cells = ("-" if value is None else f"{value:.1f}" for value in values)
        yield f"  {words:<28}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells)


def _end_to_end_ms(report: BenchReport) -> float | None:
    found = report.everything.end_to_end
    return None if found is None else found.p50 * 1000


_MEASURES: Final[Mapping[str, Callable[[BenchReport], float | None]]] = {
    "answers per second": lambda report: report.answered_per_second,
    "tokens per second": lambda report: report.output_tokens_per_second,
    "end to end p50, ms": _end_to_end_ms,
    "failed": lambda report: float(report.requests - report.answered),
}
