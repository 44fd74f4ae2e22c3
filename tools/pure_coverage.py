"""Run the unit tests with coverage; fail where a pure package has too few lines that they run.

`make coverage`. The pure packages are those of the contract in `.importlinter`: decisions without
I/O, so every line of them can be run by a test that takes milliseconds. What is measured stays in
`.coverage-unit`, from which `tools/tests_of.py` reads which tests run a module.
"""

import configparser
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coverage import Coverage

import unit
from support.needs import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".coverage-unit"
FLOOR = 0.85
"""Share of the lines of each package; `make mutants` says whether the tests notice what they
compute."""


@dataclass(frozen=True)
class Lines:
    """How many lines of a package there are, and which of its files have lines that never ran."""

    package: str
    count: int
    missing: dict[str, list[int]]

    @property
    def share(self) -> float:
        """Return the share of lines that ran."""
        return 1 - sum(map(len, self.missing.values())) / self.count


def pure_packages(contracts: Path) -> tuple[str, ...]:
    """Return the modules of the contract `pure`, by their dotted names."""
    read = configparser.ConfigParser()
    read.read(contracts, encoding="utf-8")
    return tuple(read["importlinter:contract:pure"]["source_modules"].split())


def files_of(module: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield the files of a module or of a package with all below it."""
    for source in PACKAGES:
        place = root / Path(source).parent / module.replace(".", "/")
        if place.is_dir():
            yield from sorted(place.rglob("*.py"))
        elif place.with_suffix(".py").is_file():
            yield place.with_suffix(".py")


def lines_of(module: str, measured: Coverage, root: Path = ROOT) -> Lines:
    """Return what ran of a module."""
    count, missing = 0, {}
    for file in files_of(module, root):
        _, statements, _, unseen, _ = measured.analysis2(str(file))
        count += len(statements)
        if unseen:
            missing[str(file.relative_to(root))] = unseen
    return Lines(module, max(count, 1), missing)


def report(found: list[Lines]) -> int:
    """Print a line for each package and return the exit code."""
    for one in sorted(found, key=lambda lines: lines.share):
        print(f"{one.share:6.1%} of {one.count:5} lines  {one.package}")
    low = [one for one in found if one.share < FLOOR]
    for one in low:
        print(f"{one.package}: unit tests run {one.share:.1%} of its lines, expected {FLOOR:.0%}")
        for file, lines in sorted(one.missing.items(), key=lambda item: -len(item[1]))[:5]:
            print(f"  {file}: {len(lines)} never run, the first is line {lines[0]}")
    return 1 if low else 0


def main() -> int:
    """Return 0 when the tests pass and enough lines ran."""
    options = ["-n", "logical", "--dist", "loadgroup", "-q", "--cov-context=test", "--cov-report="]
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
        # No environment variable: tests that measure something of their own would inherit it.
        file.write(f"[run]\ndata_file = {DATA}\n[report]\nexclude_also = if TYPE_CHECKING:\n")
        file.flush()
        options.append(f"--cov-config={file.name}")
        if code := unit.main([*options, *(f"--cov={source}" for source in PACKAGES)]):
            return code
        measured = Coverage(config_file=file.name)
    measured.load()
    return report([lines_of(name, measured) for name in pure_packages(ROOT / ".importlinter")])


if __name__ == "__main__":
    sys.exit(main())
