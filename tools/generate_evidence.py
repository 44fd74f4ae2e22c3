"""Write the column "needs" of docs/design/evidence.md from the markers of the tests of each row.

python tools/generate_evidence.py           write
python tools/generate_evidence.py --check   exit 1 when a row says something else than its tests

Claims and commands are written by hand. Tests are read as syntax trees, never imported, so this
takes a second; `tests/architecture/test_evidence_is_kept.py` collects them.
"""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from generated_files import settle

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = Path("docs/design/evidence.md")
NEEDS: Final = {
    "cluster": "control plane",
    "e2e": "cluster",
    "triton": "Triton",
    "s3": "S3",
    "slow": "minutes",
    "gpu": "GPU",
}
"""Marker -> its word in the table, in the order of the table."""
SEEN_ON: Final = ("real part", "CPU", "stand-in", "planned")
"""What a claim was seen on: the part itself, a processor for a GPU, a stand-in, or nothing."""

_QUOTED: Final = re.compile(r"`([^`]+)`")
_RECIPE: Final = re.compile(r"tests/[\w/.]+")


@dataclass(frozen=True)
class Row:
    """One claim of the table."""

    claim: str
    shown_by: str
    seen_on: str

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands of the second column, without quotes."""
        return tuple(_QUOTED.findall(self.shown_by))


@dataclass(frozen=True)
class Selection:
    """What a pytest command runs: paths of the repository and its options -m and -k."""

    paths: tuple[str, ...]
    marker: str = ""
    keyword: str = ""


def rows(page: str) -> Iterator[Row]:
    """Yield the claims of the table; headings between them have no command."""
    for line in page.splitlines():
        if row := _row(line):
            yield row


def selection(command: str, makefile: str) -> Selection | None:
    """Return what a command runs; None for one that runs no pytest.

    Args:
        command: `pytest ...`, `make TARGET` or another program.
        makefile: text of the Makefile; the paths of a target's recipe count as its own.
    """
    words = shlex.split(command)
    if words[0] == "make":
        recipe = re.search(rf"^{words[1]}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        paths = _RECIPE.findall(recipe[1]) if recipe else ()
        return Selection(tuple(paths)) if paths else None
    if words[0] != "pytest":
        return None
    options = {"-m": "", "-k": ""}
    paths, rest = [], iter(words[1:])
    for word in rest:
        if word in options:
            options[word] = next(rest)
        else:
            paths.append(word)
    return Selection(tuple(paths), options["-m"], options["-k"])


def needs(root: Path, chosen: Selection) -> frozenset[str]:
    """Return the markers of the tests that a command selects, of those that `NEEDS` has."""
    found: set[str] = set()
    for path in test_files(root, chosen):
        found |= _markers(path)
    return frozenset(found & NEEDS.keys())


def test_files(root: Path, chosen: Selection) -> list[Path]:
    """Return the test files of a command that have its marker and its keyword."""
    files = [
        file
        for path in chosen.paths
        for file in (sorted((root / path).rglob("test_*.py")) or [root / path])
        if file.is_file()
    ]
    return [
        file
        for file in files
        if not chosen.marker or chosen.marker in _markers(file)
        if chosen.keyword in str(file) or chosen.keyword in file.read_text(encoding="utf-8")
    ]


def _markers(file: Path) -> set[str]:
    """Return X of each `pytest.mark.X` in a file."""
    return {
        node.attr
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
    }


def page(root: Path = ROOT) -> str:
    """Return the page with its last column updated."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    lines = (root / PAGE).read_text(encoding="utf-8").splitlines()
    return "".join(f"{_completed(root, makefile, line)}\n" for line in lines)


def _completed(root: Path, makefile: str, line: str) -> str:
    row = _row(line)
    if row is None:
        return line
    chosen = [one for text in row.commands if (one := selection(text, makefile))]
    markers = frozenset[str]().union(*(needs(root, one) for one in chosen))
    words = ", ".join(word for marker, word in NEEDS.items() if marker in markers)
    return f"| {row.claim} | {row.shown_by} | {row.seen_on} | {words or '-'} |"


def _row(line: str) -> Row | None:
    """Return the claim of a line; None for prose and for the headings of the table."""
    # A `|` within code quotes would need an escape; the table has none.
    match [cell.strip() for cell in line.strip("|").split("|")]:
        case [_, "" | "---" | "shown by", _, _]:
            return None
        case [claim, shown_by, seen_on, _] if line.startswith("|"):
            return Row(claim, shown_by, seen_on)
    return None


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; return the exit code."""
    return settle({root / PAGE: page(root)}, arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
