"""How large is the house? Prints each measure beside its ceiling; exits 1 when one is above it.

`make size` prints them and `make lint` holds them. A ceiling is lowered by the commit that makes a
measure smaller, and never raised without a page in docs/decisions.
"""

import ast
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from check_sizes import tracked_python_files

ROOT: Final = Path(__file__).resolve().parent.parent
PRODUCT: Final = ("crds", "edge", "operator", "router", "runtime", "mmctl", "observability")
BACKEND: Final = re.compile(r"""["'](?:Reference|TensorRT|PyTorch|VLLM)["']""")
BACKEND_HOMES: Final = (
    "crds/mm_api/backends.py",
    "crds/mm_api/v1alpha1/",
    "crds/mm_api/documents/",
    "operator/mm_operator/plan/engine/backends/",
    "runtime/mm_runtime/backends/",
)
"""Folders of backends, and the types of the API: a literal belongs there."""

TUNING: Final = "operator/mm_operator/autoscaling/objectives.py"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that has a ceiling."""

    title: str
    ceiling: int
    goal: int
    """Where it is to be: docs/decisions/20261129-the-house-has-ceilings.md."""
    count: Callable[[dict[str, str]], int]
    """Counts in the sources: path below the root -> text."""


def lines_below(*folders: str) -> Callable[[dict[str, str]], int]:
    """Return what counts the lines of Python in folders."""
    starts = tuple(f"{folder}/" for folder in folders)
    return lambda sources: sum(
        len(text.splitlines()) for path, text in sources.items() if path.startswith(starts)
    )


def files_with_a_backend(sources: dict[str, str]) -> int:
    """Return how many files of the product compare or name a backend outside its folder."""
    return sum(
        path.startswith(PRODUCT)
        and not path.startswith(BACKEND_HOMES)
        and BACKEND.search(text) is not None
        for path, text in sources.items()
    )


def constants_of_the_policy(sources: dict[str, str]) -> int:
    """Return the fields of the autoscaler's `Tuning`."""
    classes = [
        node
        for node in ast.parse(sources[TUNING]).body
        if isinstance(node, ast.ClassDef) and node.name == "Tuning"
    ]
    return sum(isinstance(field, ast.AnnAssign) for field in classes[0].body)


MEASURES: Final = (
    Measure("lines of the product", 89_989, 93_000, lines_below(*PRODUCT)),
    Measure("lines of tests", 97_504, 98_000, lines_below("tests")),
    Measure("files that name a backend outside its folder", 0, 0, files_with_a_backend),
    Measure("constants of the autoscaler", 15, 15, constants_of_the_policy),
)


def above(measures: tuple[Measure, ...], sources: dict[str, str]) -> list[str]:
    """Return a sentence for each measure above its ceiling."""
    found = ((one, one.count(sources)) for one in measures)
    return [
        f"{one.title}: {number:,}, at most {one.ceiling:,}: make it smaller, or say in"
        " docs/decisions why it grows"
        for one, number in found
        if number > one.ceiling
    ]


def main() -> int:
    """Print the measures; return 1 when one is above its ceiling."""
    files = tracked_python_files(ROOT)
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    for one in MEASURES:
        print(f"{one.count(sources):>9,}  {one.title} (at most {one.ceiling:,}, goal {one.goal:,})")
    found = above(MEASURES, sources)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
