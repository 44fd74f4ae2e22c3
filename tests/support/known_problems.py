"""Rows of docs/design/known-problems.md as selections of tests: which test shows which problem."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from support.scripts import ROOT, load_tool

COLLECTED = pytest.StashKey[list[str]]()
"""Of a configuration: ids of all tests, where all were collected."""


@dataclass(frozen=True)
class Case:
    """One row, and what its commands select."""

    number: int
    verdict: str
    selections: tuple[tuple[tuple[str, ...], str], ...]
    """Paths, and the keyword that ids of tests have, of each command."""

    def is_shown_by(self, test: str) -> bool:
        return any(
            keyword in test and any(is_within(test, path) for path in paths)
            for paths, keyword in self.selections
        )


def is_within(test: str, path: str) -> bool:
    return test == path or test.startswith((f"{path}/", f"{path}::"))


@cache
def cases() -> tuple[Case, ...]:
    rows = [row for area in load_tool("generate_known_problems").areas() for row in area.rows]
    return tuple(_cases(rows))


def _cases(rows: Iterable[Any]) -> Iterator[Case]:
    evidence = load_tool("generate_evidence")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for row in rows:
        chosen = [evidence.selection(command, makefile) for command in row.shown_by]
        if chosen:
            yield Case(
                row.number, row.verdict, tuple((one.paths, one.keyword) for one in chosen if one)
            )


def paths_of(chosen: Iterable[Case]) -> list[str]:
    found = {path for case in chosen for paths, _ in case.selections for path in paths}
    return sorted(
        path for path in found if not any(path != one and is_within(path, one) for one in found)
    )


def without_tests(chosen: Iterable[Case], tests: Iterable[str]) -> list[int]:
    ids = list(tests)
    return [case.number for case in chosen if not any(map(case.is_shown_by, ids))]
