"""A model whose plan is impossible ends in a condition: no build Job, nothing that serves."""

from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from support.absent_kubelet import inspected
from support.cases import cases
from support.model_configs import facts_of
from support.model_documents import document
from support.model_namespace import Api
from support.models import llava_7b_facts

pytestmark = pytest.mark.cluster

TOO_SMALL = {"runtime": {"resources": {"limits": {"memory": "4Gi"}}}}


@cases(
    "facts spec expected",
    {
        "too-big": (llava_7b_facts(), TOO_SMALL, ("DoesNotFit", "4Gi is too little")),
        "another-backends-family": (facts_of("gemma3"), {}, ("InvalidSpec", "compute gemma3")),
    },
)
def test_the_verdict_is_a_condition(
    watched: Api, facts: ModelFacts, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    reason, words = expected
    watched.apply(document(spec, name="m"))
    inspected(watched, "m", facts)
    assert watched.reaches("m", "Planned", reason, words)["status"] == "False"
    assert not [job for job in watched.names("jobs") if "engine-" in job]
    assert watched.names("deployments") == []
