"""docs/reference/conditions.md has each condition type and reason that can be set, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from condition_guide import EVENTS, SECTIONS, TYPES
from mm_api.conditions import ConditionType, Reason
from mm_api.documents.build_result import BuildReason
from mm_api.documents.model_facts import InspectReason
from mm_operator.status.events import SCALED_DOWN, SCALED_UP
from support.scripts import ROOT

GUIDE = {reason for reasons in SECTIONS.values() for reason in reasons}
KNOWN = {*Reason, *InspectReason, *BuildReason}
CAMEL_CASE = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")
REASON_POSITION = {"SpecError": 0, "StageError": 1, "Aspect": 2, "Failure": 0, "Event": 1}
"""Position of the reason among the arguments."""
SOURCES = [
    path
    for path in sorted((ROOT / "operator" / "mm_operator").rglob("*.py"))
    # Codes of the engine planner become InvalidSpec where they are no reasons.
    if not {"engine", "cli", "simulation"} & set(path.parts)
]


def literal_reasons(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        values = [one.value for one in node.keywords if one.arg == "reason" and name]
        position = REASON_POSITION.get(name, len(node.args))
        values += node.args[position : position + 1]
        for value in values:
            if isinstance(value, ast.Constant) and CAMEL_CASE.fullmatch(str(value.value)):
                yield str(value.value)


def test_every_type_is_documented() -> None:
    assert list(TYPES) == list(ConditionType)


def test_every_reason_is_documented() -> None:
    assert GUIDE - EVENTS.keys() == {str(one) for one in KNOWN}
    assert EVENTS.keys() == {"BuildStepFinished", SCALED_UP, SCALED_DOWN}


@pytest.mark.parametrize(
    "path", [pytest.param(one, id=str(one.relative_to(ROOT))) for one in SOURCES]
)
def test_reasons_written_as_text_are_documented(path: Path) -> None:
    assert set(literal_reasons(path.read_text(encoding="utf-8"))) <= GUIDE


def test_undocumented_text_is_found() -> None:
    source = (
        "SpecError('NoRow', 'x'); StageError('status', 'NoRowEither'); Decision(reason='Third')"
    )
    assert set(literal_reasons(source)) == {"NoRow", "NoRowEither", "Third"}
