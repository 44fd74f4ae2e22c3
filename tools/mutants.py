"""Would a test fail if the code were wrong? Breaks a fixed sample of places and prints survivors.

`make mutants`. Each place is broken in a copy of the repository, the tests that run the line are
run there, and the place counts as caught when one of them fails. Exits 1 below the share that
CONTRIBUTING.md requires.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutation.coverage_map import CoverageMap
from mutation.places import Place, break_at, places_of, sample

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("operator", "mmctl", "runtime", "crds", "devcluster", "observability", "lab")
PACKAGES = (
    "operator/mm_operator/plan",
    "operator/mm_operator/children",
    "operator/mm_operator/status",
    "operator/mm_operator/model",
    "operator/mm_operator/names.py",
    "operator/mm_operator/digests.py",
    "operator/mm_operator/addresses.py",
    "operator/mm_operator/autoscaling",
    "crds/mm_api/families",
)
TESTS = (
    "tests/mm_api/checkpoint",
    "tests/mm_api/families",
    "tests/mm_ctl/commands",
    "tests/mm_ctl/uploading",
    "tests/mm_lab/commands",
    "tests/mm_lab/simulation",
    "tests/mm_operator/autoscaling",
    "tests/mm_operator/children",
    "tests/mm_operator/plan",
    "tests/mm_operator/servers",
    "tests/mm_operator/status",
    "tests/mm_operator/telemetry",
    "tests/mm_operator/test_names_are_valid_and_distinct.py",
    "tests/mm_runtime/adapters",
    "tests/mm_runtime/inspect",
    "tests/scenarios",
)
"""Those of the pure packages; what needs a cluster or Triton would take minutes a place."""
MARKERS = "not slow and not cluster and not e2e and not s3 and not triton and not gpu and not twin"
CAUGHT_SHARE = 0.85
TEST_SECONDS = 60
"""For one test; a place that turns a loop endless is caught by it."""
RUN_SECONDS = 900
PYTEST_CAUGHT = frozenset({1, 2})
"""A test failed, or the mutated module cannot be imported."""

NO_CONFTEST = 4
"""A `conftest.py` cannot import it. Tests that are not found end so, too: it counts where all are
run, which were found before."""


def main() -> int:
    """Return 0 when enough places are caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", type=_part, default=(1, 1), help="2/4: the second quarter only")
    parser.add_argument("--only", default="", help="places whose FILE:LINE contains this text")
    options = parser.parse_args()
    number, parts = options.part
    chosen = [
        place
        for place in sample(_places(), options.places)[number - 1 :: parts]
        if options.only in f"{place.file}:{place.line}"
    ]
    if not chosen:
        parser.error("no place of the sample is chosen")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            copies.put(_copy(Path(folder) / str(number)))
        measured = copies.get()
        covered = _measure(measured)
        copies.put(measured)

        def judge(place: Place) -> bool:
            copy = copies.get()
            try:
                caught = _is_caught(copy, place, covered.tests_of(place.file, place.line))
            finally:
                copies.put(copy)
            print("caught" if caught else "survived", place.file, place.line, flush=True)
            return caught

        with ThreadPoolExecutor(options.workers) as pool:
            caught = list(pool.map(judge, chosen))
    for place, is_caught in zip(chosen, caught, strict=True):
        if not is_caught:
            print(f"survived: {place.file}:{place.line} {place.operator}: {place.text}")
    share = sum(caught) / len(chosen)
    print(f"{sum(caught)} of {len(chosen)} caught, {share:.0%}; expected {CAUGHT_SHARE:.0%}")
    return int(share < CAUGHT_SHARE)


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise ValueError(text)
    return int(number), int(parts)


def _places() -> Iterator[Place]:
    for package in PACKAGES:
        source = ROOT / package
        for path in [source] if source.is_file() else sorted(source.rglob("*.py")):
            yield from places_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


def _copy(folder: Path) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    for name in listed.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _measure(copy: Path) -> CoverageMap:
    """Run all tests once, noting which lines each of them runs.

    Raises:
        SystemExit: they fail on what is not broken.
    """
    cover = [f"--cov={copy / package}" for package in PACKAGES]
    cover += ["--cov-context=test", "--cov-report="]
    done = _pytest(copy, *cover, *TESTS)
    if done.returncode:
        raise SystemExit(f"the tests fail on unbroken sources:\n{done.stdout[-4000:]}")
    return CoverageMap(copy / ".coverage", copy)


def _is_caught(
    copy: Path, place: Place, tests: set[str], everything: tuple[str, ...] = TESTS
) -> bool:
    """Return whether a test fails: of those that run the line, then of `everything`.

    What is computed while tests are collected, or once for several of them, is in the context of
    no test, or of the first one alone.
    """
    original = (copy / place.file).read_bytes()
    try:
        break_at(copy, place)
        rounds = ((sorted(tests), PYTEST_CAUGHT), (everything, {*PYTEST_CAUGHT, NO_CONFTEST}))
        return any(
            _pytest(copy, "-x", *chosen).returncode in caught for chosen, caught in rounds if chosen
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        (copy / place.file).write_bytes(original)


def _pytest(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        # Before the editable install, which leads to the working tree.
        "PYTHONPATH": os.pathsep.join(str(copy / name) for name in SOURCES),
        "PYTHONDONTWRITEBYTECODE": "1",  # two mutants within a second would share a cached file
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-m", MARKERS, f"--timeout={TEST_SECONDS}", *arguments]
    return subprocess.run(
        command,
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main())
