"""A spec that cannot be carried out freezes the model: whatever serves continues."""

from dataclasses import replace
from typing import Any

from mm_operator.errors import ClusterError, SpecError
from mm_operator.model import Plan
from mm_operator.plan import decide
from support.cases import cases
from support.models import snapshot_of, spec_of

_ON_CLAIM = {"persistentVolumeClaim": {"claimName": "engines"}}
_STORE = {"build": {"store": _ON_CLAIM}}


def frozen_by(**fields: Any) -> Plan:
    return decide(snapshot_of(**fields))


@cases(
    "fields reason words",
    {
        "not-understood": (
            {"spec": None, "spec_error": SpecError("InvalidSpec", "unknown field", "spec.x")},
            "InvalidSpec",
            "spec.x: unknown field",
        ),
        "no-reason-given": ({"spec": None}, "InvalidSpec", "cannot be read"),
        "deleting": ({"deleting": True}, "Deleting", "being deleted"),
        "store-of-one-pod": (
            {"spec": spec_of(_STORE), "claims_of_one_pod": ("engines",)},
            "NotSupported",
            "claim engines is ReadWriteOncePod",
        ),
    },
)
def test_frozen(fields: dict[str, Any], reason: str, words: str) -> None:
    plan = frozen_by(**fields)
    assert (True, reason, True) == (plan.frozen, plan.problem.reason, words in plan.inspect.message)


@cases(
    "store", {"work-of-a-bucket": _ON_CLAIM | {"s3": {"bucket": "engines"}}, "another-claim": {}}
)
def test_claims_that_no_pod_serves_from_pass(store: dict[str, Any]) -> None:
    """One pod at a time is enough for Jobs; a claim made again is seen by the next look."""
    snapshot = snapshot_of({"build": {"store": store}}, claims_of_one_pod=("engines",))
    assert not decide(snapshot).frozen
    assert decide(replace(snapshot, spec=spec_of(_STORE))).recheck_after


def test_known_family_passes() -> None:
    assert not decide(snapshot_of({"model": {"family": "llava"}})).frozen


@cases(
    "expected status",
    {"answer": ("Job a: HTTP 409: exists", 409), "no-answer": ("Job a: no answer: exists", 0)},
)
def test_errors_of_the_cluster_are_sentences(expected: str, status: int) -> None:
    assert expected == str(ClusterError(status, "Job", "a", "exists"))
