"""Which tests run a line: read from coverage's contexts."""

import sqlite3
from collections import defaultdict
from pathlib import Path

from coverage import CoverageData


class CoverageMap:
    """The tests that run each line of the measured files.

    Args:
        data: a `.coverage` file that `pytest --cov-context=test` wrote.
        root: of the repository that was measured.
    """

    def __init__(self, data: Path, root: Path) -> None:
        try:
            read = CoverageData(str(data))
            read.read()
            self._tests: dict[str, dict[int, set[str]]] = {}
            for name in read.measured_files():
                file = str(Path(name).relative_to(root))
                by_line: dict[int, set[str]] = defaultdict(set)
                for line, contexts in read.contexts_by_lineno(name).items():
                    by_line[line] = {_test_of(one) for one in contexts if "|" in one}
                self._tests[file] = by_line
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{data} is not coverage's data: {error}") from error

    def lines_of(self, file: str) -> dict[int, set[str]]:
        """Return the ids of the tests that run each line of a file."""
        return self._tests.get(file, {})

    def tests_of(self, file: str, line: int) -> set[str]:
        """Return the ids of the tests that run a line.

        What runs at import only (constants, defaults, decorators) is in no test's context: there
        every test counts that runs any line of the file.
        """
        lines = self.lines_of(file)
        return lines.get(line) or set().union(*lines.values())


def _test_of(context: str) -> str:
    test, _, phase = context.rpartition("|")
    return test if phase == "run" else test.partition("::")[0]
