"""Each row of docs/design/evidence.md names a command that exists and that selects tests."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.scripts import ROOT, load_tool

EVIDENCE = load_tool("generate_evidence")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ROWS = list(EVIDENCE.rows((ROOT / EVIDENCE.PAGE).read_text(encoding="utf-8")))
COMMANDS = [
    pytest.param(command, id=command) for row in ROWS for command in dict.fromkeys(row.commands)
]


def selects(root: Path, command: str) -> bool:
    """Return whether a command exists and, where it runs pytest, some test file is its own."""
    words = shlex.split(command)
    chosen = EVIDENCE.selection(command, MAKEFILE)
    if chosen is not None:
        return bool(EVIDENCE.test_files(root, chosen))
    if words[0] == "make":
        return bool(re.search(rf"^{words[1]}:", MAKEFILE, re.MULTILINE))
    return Path(words[0]).name in (root / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", [pytest.param(one, id=one.claim[:60]) for one in ROWS])
def test_each_claim_has_evidence(row: Any) -> None:
    assert row.commands or "](../../bench/" in row.shown_by
    assert set(row.seen_on.split(", ")) <= set(EVIDENCE.SEEN_ON)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_exists(command: str) -> None:
    assert selects(ROOT, command)


@pytest.mark.parametrize(
    "command",
    ["pytest tests/gone", "pytest tests/scenarios -k nowhere_at_all", "make nothing", "pytest"],
    ids=["path", "keyword", "target", "no-path"],
)
def test_commands_that_show_nothing_are_found(command: str) -> None:
    assert not selects(ROOT, command)


def test_needs_follow_the_markers(tmp_path: Path) -> None:
    (tmp_path / "tests" / "one").mkdir(parents=True)
    (tmp_path / "docs" / "design").mkdir(parents=True)
    (tmp_path / "Makefile").write_text("x-test: env ## Tests\n\t$(PYTEST) tests/one\n")
    (tmp_path / "tests" / "one" / "test_a.py").write_text(
        "import pytest\npytestmark = [pytest.mark.triton, pytest.mark.slow]\n"
    )
    head = "| claim | shown by | seen on | needs |\n| --- | --- | --- | --- |\n"
    (tmp_path / "docs" / "design" / "evidence.md").write_text(
        f"{head}| A | `pytest tests` | CPU | |\n"
        "| B | `make x-test` | CPU | S3 |\n| C | `mmctl` | CPU | |\n"
    )

    assert EVIDENCE.page(tmp_path) == (
        f"{head}| A | `pytest tests` | CPU | Triton, minutes |\n"
        "| B | `make x-test` | CPU | Triton, minutes |\n| C | `mmctl` | CPU | - |\n"
    )


@pytest.mark.slow
def test_each_pytest_command_collects_tests() -> None:
    paths = {
        path
        for row in ROWS
        for command in row.commands
        if (chosen := EVIDENCE.selection(command, MAKEFILE))
        for path in chosen.paths
    }
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *sorted(paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:]
    collected = done.stdout.splitlines()
    assert {path for path in paths if not any(line.startswith(path) for line in collected)} == set()
