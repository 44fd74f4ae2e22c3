"""Does a test pass every time? Runs what a change adds, or what is named, many times.

`make flakes N=20` takes the test files that differ from BASE (uncommitted ones count; the last
commit where nothing differs), `make flakes N=20 TESTS='tests/scenarios -k quota'` what it is given.
One core is kept busy meanwhile, and each run has another hash seed. Stops at the first failure.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIT_SECONDS = 60
RUN_SECONDS = 3600
BUSY_LOOP = "while True: pass"


def changed_tests(root: Path, base: str) -> list[str]:
    """Return the test files that differ from a commit, untracked ones included."""
    differing = _git(root, "diff", "--name-only", "-z", "--diff-filter=d", base, "--", "tests")
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", "tests")
    names = {*differing.split("\0"), *new.split("\0")}
    return sorted(name for name in names if Path(name).match("test_*.py"))


def repeat(command: list[str], times: int, root: Path) -> int:
    """Run a command until it failed or ran this many times; return how often it passed."""
    for passed in range(times):
        environment = {**os.environ, "PYTHONHASHSEED": str(passed)}
        done = subprocess.run(command, cwd=root, env=environment, check=False, timeout=RUN_SECONDS)
        if done.returncode:
            return passed
    return times


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy."""
    with subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> int:
    """Return 0 when every run passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--base", default="HEAD")
    parser.add_argument("--tests", default="", help="pytest's arguments")
    options = parser.parse_args()
    chosen = shlex.split(options.tests)
    chosen = chosen or changed_tests(ROOT, options.base) or changed_tests(ROOT, "HEAD~1")
    if not chosen:
        print("no test file differs; name some: make flakes TESTS=tests/mm_operator/control")
        return 1
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    with busy_core():
        passed = repeat(command, options.times, ROOT)
    print(f"{passed} of {options.times} runs passed: {shlex.join(chosen)}")
    return int(passed < options.times)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        timeout=GIT_SECONDS,
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
