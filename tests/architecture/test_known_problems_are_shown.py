"""Rows of docs/known-problems.md are complete, and name tests that exist."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.scripts import ROOT, load_tool

PROBLEMS = load_tool("generate_known_problems")
EVIDENCE = load_tool("generate_evidence")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
AREAS = PROBLEMS.areas()
ROWS = [row for area in AREAS for row in area.rows]
COMMANDS = sorted({command for row in ROWS for command in row.shown_by})
REPORTED = 144
ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
PAGE_LINES = 300


def selects(root: Path, command: str) -> bool:
    """Return whether some test file is selected."""
    chosen = EVIDENCE.selection(command, MAKEFILE)
    return chosen is not None and bool(EVIDENCE.test_files(root, chosen))


def test_every_problem_has_a_row() -> None:
    """Numbers are those of the survey, in its order."""
    assert [row.number for row in ROWS] == list(range(1, REPORTED + 1))


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row.number)) for row in ROWS])
def test_a_row_is_complete(row: Any) -> None:
    """What is not silent or missing is shown by a test; a silent row has none to show."""
    assert row.verdict in PROBLEMS.VERDICTS
    assert all(ISSUE.fullmatch(issue) for issue in row.issues)
    assert row.issues
    assert row.verdict == "unsupported" or bool(row.shown_by) == (row.verdict != "silent")


@pytest.mark.parametrize("command", [pytest.param(command, id=command) for command in COMMANDS])
def test_each_command_selects_tests(command: str) -> None:
    """Paths, marker and keyword of pytest select a file."""
    assert selects(ROOT, command)


@pytest.mark.parametrize(
    "command",
    ["pytest tests/gone", "pytest tests/scenarios -k nowhere_at_all", "mmctl plan"],
    ids=["path", "keyword", "no-test"],
)
def test_commands_that_show_nothing_are_found(command: str) -> None:
    """A test that moved, a keyword that nothing has, a program that asserts nothing."""
    assert not selects(ROOT, command)


def test_the_page_is_one_page() -> None:
    """A page that grows beyond what is read at once is split by area."""
    assert len(PROBLEMS.page(AREAS).splitlines()) <= PAGE_LINES


def test_readme_has_the_counts() -> None:
    """README says how many end in silence; the generator found its sentence."""
    assert PROBLEMS.sentence(AREAS) in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_each_command_collects_tests() -> None:
    """Pytest itself collects, in each path, a test whose id has the keyword."""
    chosen = {command: EVIDENCE.selection(command, MAKEFILE) for command in COMMANDS}
    paths = sorted({path for one in chosen.values() for path in one.paths})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *paths], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )

    assert done.returncode == 0, done.stdout[-2000:]
    collected = done.stdout.splitlines()
    found = {
        name
        for name, one in chosen.items()
        if any(line.startswith(one.paths) and one.keyword in line for line in collected)
    }
    assert found == set(COMMANDS)
