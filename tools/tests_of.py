"""Which tests look at a module? `tools/tests_of.py operator/mm_operator/plan/store.py`.

Prints the folder that is named after its package, the test files that import the module, which is
always true, and those whose tests run its lines, most lines first, as the last `make coverage` saw
it: unit tests only.
"""

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pure_coverage
from mutation.coverage_map import CoverageMap
from support.needs import PACKAGES, imports

ROOT = Path(__file__).resolve().parent.parent


def importers(module: Path, root: Path = ROOT) -> list[str]:
    """Return the test files that import a module by name."""
    source = next(
        Path(one).parent for one in PACKAGES if module.is_relative_to(root / Path(one).parent)
    )
    parts = module.relative_to(root / source).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    files = sorted((root / "tests").rglob("test_*.py"))
    return [str(file.relative_to(root)) for file in files if name in imports(file)]


def folder(module: Path, root: Path = ROOT) -> Path | None:
    """Return the folder of tests named after a module's package, or after the nearest around it."""
    source = next(Path(one).parent for one in PACKAGES if module.is_relative_to(root / one))
    below = Path("tests") / module.relative_to(root / source)
    return next((one for one in below.parents if any((root / one).glob("test_*.py"))), None)


def runners(module: Path, data: Path, root: Path = ROOT) -> Counter[str]:
    """Return how many lines of a module the tests of each file run."""
    covered = CoverageMap(data, root)
    counts: Counter[str] = Counter()
    for line in covered.lines_of(str(module.relative_to(root))).values():
        counts.update({test.partition("::")[0] for test in line})
    return counts


def main() -> int:
    """Return 0 when the module exists."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path, help="path of a Python file, or its dotted name")
    given = parser.parse_args().module
    found = [given.absolute()] if given.is_file() else list(pure_coverage.files_of(str(given)))
    if len(found) != 1:
        parser.error(f"{given} is not a module: expected a file below {PACKAGES}")
    (module,) = found
    print(f"its folder: {folder(module) or 'none'}")
    print("tests that import it:")
    print("\n".join(f"  {name}" for name in importers(module)) or "  none")
    if not pure_coverage.DATA.is_file():
        print("tests that run it: unknown, run `make coverage`")
        return 0
    measured = pure_coverage.DATA.stat().st_mtime
    when = datetime.fromtimestamp(measured, UTC)
    print(f"unit tests that run it, by number of lines, as of {when:%F %T} UTC:")
    if module.stat().st_mtime > measured:
        print("  (the module has changed since: `make coverage` measures again)")
    counts = runners(module, pure_coverage.DATA)
    print("\n".join(f"{count:6}  {name}" for name, count in counts.most_common()) or "  none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
