"""Every test is collected, and runs in `make test` or in a suite of `make nightly`."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import generate_nightly_page
import nightly

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


ROOT = Path(__file__).parents[2]


def test_each_marker_that_is_left_out_has_a_suite() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (left_out,) = re.findall(r"^\t\$\(PYTEST\) -n .* -m '(.*)'$", makefile, re.MULTILINE)
    run = " ".join(nightly.SUITES.values())
    for target in re.findall(r"[\w-]+", run):
        run += "".join(re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    for marker in re.findall(r"not (\w+)", left_out):
        assert f"-m {marker}" in run, marker


def test_the_page_names_what_has_not_run_for_long() -> None:
    old, new = ({"date": day, "commit": "c", "result": "r"} for day in ("2026-01-01", "2026-02-01"))
    page = generate_nightly_page.page(dict.fromkeys(nightly.SUITES, new) | {"twin": old})
    assert "**Not run within 30 days of the newest run: `twin`.**" in page
    assert "Not run" not in generate_nightly_page.page(dict.fromkeys(nightly.SUITES, old))


@pytest.mark.parametrize(
    ("output", "code", "result"),
    [
        ("== 2 passed in 3s ==\n== 5 passed in 1s ==", 0, "2 passed; 5 passed"),
        ("== 5 passed in 1s ==", 1, "failed (exit code 1)"),
        ("== 1 failed, 2 passed in 3s ==", 2, "1 failed, 2 passed"),
        ("== 2 passed, 1 skipped in 3s ==", 0, "2 passed, 1 skipped"),
        ("== 9 skipped in 3s ==", 0, None),
        ("caught 92 of 100", 0, "passed"),
        ("no Python 3.12", 77, None),
    ],
)
def test_results_say_what_ran(output: str, code: int, result: str | None) -> None:
    assert nightly.closing(output, code) == result
