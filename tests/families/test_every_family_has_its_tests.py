"""What `pytest tests/families` runs exists, and knows every family."""

import pytest

from mm_api.families import FAMILIES, SERVED
from mm_api.families.known_classes import CLASSES, COMPARED, COMPARED_WITH, TRANSFORMERS, why_not
from support.families.images import CASES
from support.families.own_classes import WRITERS
from support.families.shown_by import PATHS
from support.families.texts import WRITERS as TEXTS
from support.model_configs import MODELS
from support.scripts import ROOT


@pytest.mark.parametrize("what", PATHS)
def test_files_exist(what: str) -> None:
    """Facts, plan, answers and commands each have tests."""
    found = [path for path in PATHS[what] if (ROOT / path).exists()]

    assert found == list(PATHS[what])


def test_every_family_has_a_model_to_plan() -> None:
    """Facts, plan and commands follow from the files of a real model."""
    assert set(MODELS) == set(FAMILIES)


def test_every_served_family_has_a_checkpoint_to_answer() -> None:
    """Random and small, of the real class; classes without a record stand for `generic`."""
    written = {*CASES, *TEXTS} | ({"generic"} if WRITERS else set())

    assert set(SERVED) - written == set()


def test_every_class_that_is_served_is_compared() -> None:
    """With the transformers that is pinned; what has no checkpoint of its own is refused."""
    own = {family.model_type for family in FAMILIES.values()}
    served = [one for one in CLASSES if one not in own and why_not({"model_type": one}) is None]

    assert sorted(WRITERS) == served == list(COMPARED)
    assert COMPARED_WITH == TRANSFORMERS
