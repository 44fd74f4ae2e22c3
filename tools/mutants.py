"""Would a test fail if the code were wrong? Breaks a fixed sample of places and prints survivors.

`make mutants`. Each place is broken in a copy of the repository, the tests that run the line are
run there, and the place counts as caught when one of them fails. Exits 1 below the share that
CONTRIBUTING.md asks for.
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
SOURCES = ("operator", "runtime", "crds", "devcluster", "observability")
PACKAGES = ("plan", "children", "status", "model", "autoscaling")
TESTS = (
    "tests/plan",
    "tests/sizing",
    "tests/children",
    "tests/status",
    "tests/scaling_policy",
    "tests/scenarios",
    "tests/observed",
)
"""Those of the pure packages; what needs a cluster or Triton would take minutes a place."""
MARKERS = "not slow and not cluster and not e2e and not s3 and not triton"
CAUGHT_SHARE = 0.85
TEST_SECONDS = 60
"""For one test; a place that turns a loop endless is caught by it."""
RUN_SECONDS = 900
PYTEST_CAUGHT = frozenset({1, 2})
"""A test failed, or the mutated module cannot be imported."""


def main() -> int:
    """Return 0 when enough places are caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            copies.put(_copy(Path(folder) / str(number)))
        measured = copies.get()
        covered = _measure(measured)
        copies.put(measured)
        chosen = sample(_places(), options.places)

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


def _places() -> Iterator[Place]:
    for package in PACKAGES:
        for path in sorted((ROOT / "operator" / "mm_operator" / package).rglob("*.py")):
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
    cover = [f"--cov={copy / 'operator' / 'mm_operator'}", "--cov-context=test", "--cov-report="]
    done = _pytest(copy, *cover, *TESTS)
    if done.returncode:
        raise SystemExit(f"the tests fail on unbroken sources:\n{done.stdout[-4000:]}")
    return CoverageMap(copy / ".coverage", copy)


def _is_caught(
    copy: Path, place: Place, tests: set[str], everything: tuple[str, ...] = TESTS
) -> bool:
    original = (copy / place.file).read_bytes()
    try:
        break_at(copy, place)
        # What a module computes while it is collected is in no test's context: a survivor of the
        # chosen tests is judged by all of them.
        rounds = filter(None, (sorted(tests), everything))
        return any(_pytest(copy, "-x", *chosen).returncode in PYTEST_CAUGHT for chosen in rounds)
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
