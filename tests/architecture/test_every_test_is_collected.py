"""A folder that pytest leaves out by its name has tests that never run, and nothing says so."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def test_no_folder_of_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    """By default pytest skips `build`, `dist` and others: 420 tests were never run."""
    patterns = pytestconfig.getini("norecursedirs")
    folders = {file.parent.relative_to(TESTS) for file in TESTS.rglob("test_*.py")}
    skipped = [
        str(folder)
        for folder in folders
        if any(fnmatch(part, pattern) for part in folder.parts for pattern in patterns)
    ]
    assert patterns
    assert skipped == []
