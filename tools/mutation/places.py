"""PURE but for reading sources: the places where cosmic-ray's operators can break a file."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

OPERATORS = tuple(
    f"core/{name}"
    for name in (
        "AddNot",
        "NumberReplacer",
        "ReplaceAndWithOr",
        "ReplaceBinaryOperator_Add_Sub",
        "ReplaceBinaryOperator_Div_Mul",
        "ReplaceBinaryOperator_FloorDiv_Mul",
        "ReplaceBinaryOperator_Mod_Mul",
        "ReplaceBinaryOperator_Mul_Add",
        "ReplaceBinaryOperator_Sub_Add",
        "ReplaceBreakWithContinue",
        "ReplaceComparisonOperator_Eq_NotEq",
        "ReplaceComparisonOperator_GtE_Gt",
        "ReplaceComparisonOperator_Gt_GtE",
        "ReplaceComparisonOperator_IsNot_Is",
        "ReplaceComparisonOperator_Is_IsNot",
        "ReplaceComparisonOperator_LtE_Lt",
        "ReplaceComparisonOperator_Lt_LtE",
        "ReplaceComparisonOperator_NotEq_Eq",
        "ReplaceContinueWithBreak",
        "ReplaceFalseWithTrue",
        "ReplaceOrWithAnd",
        "ReplaceTrueWithFalse",
        "ReplaceUnaryOperator_Delete_Not",
        "ZeroIterationForLoop",
    )
)
"""One mutation per kind of mistake: limits, signs, conditions, constants, loops.

Left out is what no test can see (`|` in annotations, arguments of decorators) and what is never
a slip (`==` to `is`)."""


@dataclass(frozen=True, slots=True)
class Place:
    """One mutation of one file: the occurrence-th that an operator finds.

    `line` counts from 1; `text` is that line, stripped; `ordinal` counts the places of this
    operator on lines of this text.
    """

    file: str
    operator: str
    occurrence: int
    line: int
    text: str
    ordinal: int

    def digest(self) -> str:
        """Return what decides whether the place is in the sample: not its line number."""
        parts = (self.file, self.operator, self.text, str(self.ordinal))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def places_of(file: str, source: str) -> list[Place]:
    """Return every place of a source text."""
    lines = source.splitlines()
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name in OPERATORS:
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        seen: Counter[str] = Counter()
        for occurrence, (line, column) in enumerate(starts):
            text = lines[line - 1].strip()
            if not (text.startswith("@") or _is_marker(lines[line - 1], column)):
                found.append(Place(file, name, occurrence, line, text, seen[text]))
            seen[text] += 1
    return found


def _is_marker(line: str, column: int) -> bool:
    return line[column : column + 1] == "*" and line[:column].rstrip()[-1:] in {"", "(", ",", "["}


def sample(places: Iterable[Place], count: int) -> list[Place]:
    """Return the same places each time: those of the least digests.

    An edit elsewhere leaves the sample as it is, unlike a random choice by position.
    """
    return sorted(places, key=Place.digest)[:count]


def break_at(folder: Path, place: Place) -> None:
    """Write the mutated source into a copy of the repository.

    Raises:
        ValueError: the operator changes nothing there.
    """
    path = folder / place.file
    mutated = mutate_code(
        path.read_text(encoding="utf-8"), get_operator(place.operator)(), place.occurrence
    )
    if mutated is None:
        raise ValueError(f"{place.operator} changes nothing at {place.file}:{place.line}")
    path.write_text(mutated, encoding="utf-8")
