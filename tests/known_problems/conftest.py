"""`pytest tests/known_problems` runs the tests that rows of the known problems name, by row.

Those tests stay where their packages' are, so nothing is copied and `make test` runs nothing twice:
among all tests this folder only compares the rows with what was collected. Given alone, it collects
what the rows name and prints what became of each; `--row 12` runs one row's.
"""

from collections import Counter
from pathlib import Path

import pytest

from support.known_problems import COLLECTED, Case, cases, is_within, paths_of, without_tests
from support.scripts import ROOT

HERE = Path(__file__).parent
OPTION = "known_problems"
"""Of the configuration, which xdist gives its workers: the rows that are run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of rows; it is known where this folder is given."""
    parser.addoption("--row", type=int, action="append", help="of docs/design/known-problems.md")


def pytest_configure(config: pytest.Config) -> None:
    """Let the rows' tests be collected, where this folder is all that was given."""
    numbers = getattr(config.option, OPTION, None)
    if numbers is None:
        given = {config.invocation_params.dir / arg for arg in config.args}
        if given != {HERE}:
            return
        numbers = _chosen(config.getoption("row"))
        setattr(config.option, OPTION, numbers)
        config.args += [str(ROOT / path) for path in paths_of(_of(numbers))]
    config.pluginmanager.register(Rows(_of(numbers)))


def _chosen(numbers: list[int] | None) -> list[int]:
    known = [case.number for case in cases()]
    if unknown := sorted(set(numbers or ()) - set(known)):
        raise pytest.UsageError(
            f"no row of docs/design/known-problems.md with tests has number {unknown}"
        )
    return numbers or known


def _of(numbers: list[int]) -> list[Case]:
    return [case for case in cases() if case.number in numbers]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the ids for `test_rows_name_tests.py`."""
    if config.getoption("--unit", default=False):
        return
    args = [Path(arg).resolve().relative_to(ROOT).as_posix() for arg in config.args if arg]
    if all(any(is_within(path, arg) for arg in args) for path in paths_of(cases())):
        config.stash[COLLECTED] = [item.nodeid for item in items]


class Rows:
    """Chooses the tests of some rows, and counts what becomes of them."""

    def __init__(self, chosen: list[Case]) -> None:
        self._chosen = chosen
        self._outcomes = {case.number: Counter[str]() for case in chosen}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect what no row names; a row without a test is an error."""
        ids = [item.nodeid for item in items]
        if missing := without_tests(self._chosen, ids):
            raise pytest.UsageError(f"rows {missing} of docs/design/known-problems.md name no test")
        named = {one for one in ids if any(case.is_shown_by(one) for case in self._chosen)}
        config.hook.pytest_deselected(items=[one for one in items if one.nodeid not in named])
        items[:] = [one for one in items if one.nodeid in named]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test for each row that names it."""
        if report.when == "call" or not report.passed:  # of a fixture: failed, or skipped
            for case in self._chosen:
                if case.is_shown_by(report.nodeid):
                    self._outcomes[case.number][report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line for each row."""
        terminalreporter.section("known problems")
        for case in self._chosen:
            counts = self._outcomes[case.number]
            found = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
            terminalreporter.line(f"{case.number:4} {case.verdict:12} {found or 'not run'}")
