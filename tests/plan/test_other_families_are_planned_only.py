"""The operator serves LLaVA; what it only plans it refuses before a Job takes a GPU."""

import pytest

from mm_operator.errors import SpecError
from mm_operator.plan.draft import draft
from mm_operator.plan.families import FAMILIES, SERVED
from support.model_configs import facts_of
from support.models import spec_of


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - SERVED))
def test_other_families_are_not_served(family: str) -> None:
    """The message says what the checkpoint is, what plans it, and what is served."""
    with pytest.raises(SpecError) as refused:
        draft(model="m", spec=spec_of(), facts=facts_of(family), builder_version="1")

    assert refused.value.reason == "NotSupported"
    assert f"family {family}" in refused.value.message
    assert "mmctl plan" in refused.value.message
