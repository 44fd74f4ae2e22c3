"""A claim that one node may attach: builds wish to run where the pods are that hold it."""

from typing import Any

import pytest

from support.staged import children, inspected

CLAIM = {"build": {"store": {"persistentVolumeClaim": {"claimName": "engines"}}}}
BUCKET = {"build": {"store": {"s3": {"bucket": "engines"}}}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="the-operators-claim"),
        pytest.param(CLAIM, False, id="a-claim-of-the-users"),
        pytest.param(BUCKET, False, id="a-bucket"),
        pytest.param({"build": {"affinity": {"podAffinity": {}}}}, False, id="an-own-affinity"),
    ],
)
def test_builds_wish_to_be_beside_servers(changes: dict[str, Any], *, expected: bool) -> None:
    """It is a wish and no rule: a GPU of another node may be needed more."""
    job = children(inspected(changes))["Job/build"]
    affinity = job["spec"]["template"]["spec"].get("affinity", {})
    wishes = affinity.get("podAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    assert bool(wishes) is expected
