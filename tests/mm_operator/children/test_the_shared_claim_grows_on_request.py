"""The claim that models of a namespace share grows where a spec requests more, and else stays."""

from dataclasses import replace
from typing import Any

from mm_operator.children.all import build
from mm_operator.model.objects import ClaimState
from support.cases import cases
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


@cases(
    "size there phase expected",
    {
        "a-new-claim-has-the-default": (None, None, "", "50Gi"),
        "a-new-claim-has-what-its-spec-says": ("1Gi", None, "", "1Gi"),
        "another-models-default-requests-nothing": (None, "1Gi", "Bound", "1Gi"),
        "a-larger-claim-stays": (None, "80Gi", "Bound", "80Gi"),
        "the-size-that-is-there": ("1Gi", "1Gi", "Bound", "1Gi"),
        "the-size-in-other-words": ("1024Mi", "1Gi", "Bound", "1Gi"),
        "a-claim-does-not-shrink": ("512Mi", "1Gi", "Bound", "1Gi"),
        "a-spec-requests-more": ("2Gi", "1Gi", "Bound", "2Gi"),
        "unbound-claims-cannot-grow-yet": ("2Gi", "1Gi", "Pending", "1Gi"),
    },
)
def test_size_of_the_claim(size: str | None, there: str | None, phase: str, expected: str) -> None:
    """A claim that is there grows by a size that is written in a spec, never by a default."""
    changes = at("build.store.size", size) if size else {}
    assert requested(changes, there, phase) == expected
