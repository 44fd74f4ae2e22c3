"""Rows of docs/design/known-problems.md are complete, and name tests that exist."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.known_problems import COLLECTED, Case, cases, without_tests
from support.scripts import ROOT, load_tool

PROBLEMS = load_tool("generate_known_problems")
EVIDENCE = load_tool("generate_evidence")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
AREAS = PROBLEMS.areas()
ROWS = [row for area in AREAS for row in area.rows]
COMMANDS = sorted({command for row in ROWS for command in row.shown_by})
REPORTED = 159
ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
PAGE_LINES = 300


def selects(root: Path, command: str) -> bool:
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


def test_the_page_is_one_page() -> None:
    """A page that grows beyond what is read at once is split by area."""
    assert len(PROBLEMS.page(AREAS).splitlines()) <= PAGE_LINES


def test_readme_has_the_counts() -> None:
    """README says how many end in silence; the generator found its sentence."""
    assert PROBLEMS.sentence(AREAS) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_each_row_is_shown_by_a_collected_test(request: pytest.FixtureRequest) -> None:
    collected = request.config.stash.get(COLLECTED, None)
    if collected is None:
        pytest.skip("a part of the tests was collected")
    assert without_tests(cases(), collected) == []


@pytest.mark.parametrize(
    ("test", "shown"),
    [
        ("tests/a/test_b.py::test_refused[two]", True),
        ("tests/a/test_b.py::test_works", False),
        ("tests/a/test_bc.py::test_refused", False),
        ("tests/c/test_d.py::test_any", True),
        ("tests/cc/test_d.py::test_any", False),
    ],
    ids=["keyword", "another-test", "longer-file", "folder", "longer-folder"],
)
def test_a_row_selects_by_path_and_keyword(test: str, *, shown: bool) -> None:
    case = Case(1, "handled", ((("tests/a/test_b.py",), "refused"), (("tests/c",), "")))
    assert case.is_shown_by(test) == shown
    assert without_tests([case], [test]) == ([] if shown else [1])


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "tests/known_problems", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_the_folder_runs_the_tests_of_a_row(lanes: tuple[str, ...]) -> None:
    done = run("--row", "2", *lanes)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^   2 prevented    \d+ passed$", done.stdout, re.MULTILINE), done.stdout
    [count] = re.findall(r"prevented +(\d+) passed", done.stdout)
    assert f"\n{count} passed" in done.stdout


@pytest.mark.slow
def test_an_unknown_row_is_refused() -> None:
    done = run("--row", "20", "--row", "1000")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no row of docs/design/known-problems.md with tests has number [20, 1000]" in done.stderr
