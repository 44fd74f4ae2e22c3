"""Replicas that may run on several nodes need a store that several nodes can attach."""

from dataclasses import replace
from typing import Any

import pytest

from mm_operator.children.all import build
from mm_operator.model.objects import ClaimState
from mm_operator.plan.engine_plan import plan_for
from support.cases import cases
from support.model_documents import at, merged
from support.models import snapshot_of, tiny_facts
from support.staged import inspected

OWN_CLAIM = at("build.store", {"persistentVolumeClaim": {"claimName": "engines"}})
BUCKET = at("build.store", {"s3": {"bucket": "engines"}})
SCALED = at(
    "autoscaling",
    {
        "mode": "Enforce",
        "maxReplicas": 4,
        "objectives": [{"metric": "RequestLatency", "percentile": 95, "target": "2s"}],
    },
)


def messages(changes: dict[str, Any], **fields: Any) -> list[str]:
    snapshot = snapshot_of(changes, **fields)
    planned = plan_for(snapshot, snapshot.spec, tiny_facts()).plan
    return [one.message for one in planned.warnings if one.code == "StoreOnOneNode"]


@cases(
    "changes fields expected",
    {
        "one-replica": ({}, {}, 0),
        "replicas": ({"replicas": 4}, {}, 1),
        "replicas-to-come": (SCALED, {}, 1),
        "not-scaled": (merged(SCALED, at("autoscaling.mode", "Off")), {}, 0),
        "bucket": (merged(BUCKET, {"replicas": 4}), {}, 0),
        "own-claim-of-many-nodes": (merged(OWN_CLAIM, {"replicas": 4}), {}, 0),
        "own-claim-of-one-node": (
            merged(OWN_CLAIM, {"replicas": 4}),
            {"claims_of_one_node": {"engines": ()}},
            1,
        ),
        "claim-of-many-nodes-is-made": (
            merged(at("build.store.accessMode", "ReadWriteMany"), {"replicas": 4}),
            {},
            0,
        ),
    },
)
def test_the_plan_warns(changes: dict[str, Any], fields: dict[str, Any], expected: int) -> None:
    found = messages(changes, **fields)

    assert len(found) == expected
    assert all("4 replicas" in one and "spec.build.store.s3" in one for one in found)


def test_a_claim_that_exists_counts_as_it_is() -> None:
    """The first model of a namespace decided its modes; another one's field changes nothing."""
    claim = ClaimState("multimodal-store", "Bound", "50Gi", None, ("ReadWriteMany",))
    snapshot = snapshot_of({"replicas": 4})
    seen = replace(snapshot, observed=replace(snapshot.observed, store=claim))
    planned = plan_for(seen, snapshot.spec, tiny_facts()).plan

    assert "StoreOnOneNode" not in [one.code for one in planned.warnings]


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteMany"])
def test_the_claim_is_made_with_the_mode(mode: str) -> None:
    children = build(*inspected(at("build.store.accessMode", mode)))

    (claim,) = [one for one in children if one["kind"] == "PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == [mode]
