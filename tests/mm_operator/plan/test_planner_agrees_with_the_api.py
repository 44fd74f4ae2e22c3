"""One table of bad specs: the API server, `validate` and the planner refuse the same ones.

The table is `RULE_EXAMPLES`; `tests/mm_api/v1alpha1` runs it against the API server and `validate`.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from support.model_configs import planned
from support.model_documents import RULE_EXAMPLES, RuleExample

CODES = {
    "input-below-sequence": "InputLenNotBelowSeqLen",
    "a-token-per-request": "NumTokensBelowBatch",
    "a-prompt-fits-a-step": "NumTokensBelowInputLen",
}
"""Rule -> code of the planner's error about the same field."""


def example(name: str) -> RuleExample:
    return next(one for one in RULE_EXAMPLES if one.name == name)


def errors(changes: Mapping[str, Any]) -> set[tuple[str, str]]:
    spec = {**changes}
    # Without images the small numbers of the examples leave room for a prompt.
    requested = {"maxImagesPerRequest": 0, **spec.pop("engine", {})}
    plan = planned("llava", requested, **spec)
    return {(error.path, error.code) for error in plan.errors}


@pytest.mark.parametrize("name", CODES)
def test_planner_refuses_what_the_api_refuses(name: str) -> None:
    one, code = example(name), CODES[name]

    assert (one.path, code) in errors(one.bad)
    assert code not in {found for _, found in errors(one.good)}
