"""A quota that allows no pods is named by the model; once it allows them, no one has to help."""

from collections.abc import Iterator

import pytest

from support.builds import build_only
from support.eventually import eventually
from support.installed import Space

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

QUOTA = "no-pods"


@pytest.fixture(autouse=True)
def _lifted(alone: Space) -> Iterator[None]:
    yield
    lift(alone)


def forbid_pods(space: Space) -> None:
    """Make a quota of no pods and wait until it counts."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": QUOTA, "namespace": space.name},
        "spec": {"hard": {"pods": "0"}},
    }
    space.apply(quota)
    found = eventually(lambda: space.get("resourcequota", QUOTA).get("status", {}).get("hard"))
    assert found == {"pods": "0"}


def lift(space: Space) -> None:
    space.kubectl("delete", "resourcequota", QUOTA, "--ignore-not-found")


@pytest.mark.slow  # a second build; the rollout below is refused by the same quota
def test_before_the_inspection(alone: Space) -> None:
    forbid_pods(alone)
    alone.apply(build_only(alone, "early", "good"))

    condition = alone.wait_reason("early", "Planned", "QuotaExceeded")

    assert f"exceeded quota: {QUOTA}" in condition.message
    lift(alone)
    assert alone.wait("early", "EngineBuilt", lambda one: one.holds).reason == "BuildSucceeded"


@pytest.mark.slow  # a build; quotas on pods are refused in tests of the operator, too
def test_before_the_rollout(alone: Space) -> None:
    alone.apply(build_only(alone, "early", "tiny"))
    alone.wait("early", "EngineBuilt", lambda one: one.holds)
    forbid_pods(alone)

    alone.kubectl("scale", "mmm", "early", "--replicas=1")

    condition = alone.wait_reason("early", "RollingOut", "QuotaExceeded")
    assert f"exceeded quota: {QUOTA}" in condition.message
    assert alone.condition("early", "Degraded").reason == "QuotaExceeded"
    lift(alone)
    assert alone.wait_ready("early").holds
