"""The claim that models of a namespace share grows where a spec requests more, and else stays."""

from dataclasses import replace
from typing import Any

import pytest

from mm_operator.children.all import build
from mm_operator.model.objects import ClaimState
from support.model_documents import at
from support.staged import inspected


def requested(changes: dict[str, Any], there: str | None = None, phase: str = "Bound") -> str:
    """Return the size that a model's round requests of the claim; `there`: what it has."""
    claim = (
        ClaimState("multimodal-store", phase, there, "standard", ("ReadWriteOnce",))
        if there
        else None
    )
    snapshot, plan = inspected(changes)
    snapshot = replace(snapshot, observed=replace(snapshot.observed, store=claim))
    documents = build(snapshot, plan)
    (found,) = (one for one in documents if one["kind"] == "PersistentVolumeClaim")
    return str(found["spec"]["resources"]["requests"]["storage"])


@pytest.mark.parametrize(
    ("size", "there", "phase", "expected"),
    [
        pytest.param(None, None, "", "50Gi", id="a-new-claim-has-the-default"),
        pytest.param("1Gi", None, "", "1Gi", id="a-new-claim-has-what-its-spec-says"),
        pytest.param(None, "1Gi", "Bound", "1Gi", id="another-models-default-requests-nothing"),
        pytest.param(None, "80Gi", "Bound", "80Gi", id="a-larger-claim-stays"),
        pytest.param("1Gi", "1Gi", "Bound", "1Gi", id="the-size-that-is-there"),
        pytest.param("1024Mi", "1Gi", "Bound", "1Gi", id="the-size-in-other-words"),
        pytest.param("512Mi", "1Gi", "Bound", "1Gi", id="a-claim-does-not-shrink"),
        pytest.param("2Gi", "1Gi", "Bound", "2Gi", id="a-spec-requests-more"),
        pytest.param("2Gi", "1Gi", "Pending", "1Gi", id="unbound-claims-cannot-grow-yet"),
    ],
)
def test_size_of_the_claim(size: str | None, there: str | None, phase: str, expected: str) -> None:
    """A claim that is there grows by a size that is written in a spec, never by a default."""
    changes = at("build.store.size", size) if size else {}
    assert requested(changes, there, phase) == expected
