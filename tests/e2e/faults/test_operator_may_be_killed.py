"""An operator killed in any stage is replaced; the new one finishes with nothing done twice."""

from typing import Any

import pytest

from mm_devcluster.demo import settings
from support.builds import SLOW, pods_ever
from support.child_kinds import CHILD_KINDS
from support.clusters import kubectl, read
from support.eventually import eventually
from support.installed import Installed, Space, operator_pods
from support.outside import kill_container

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

STAGES = {
    "inspect": ("Planned", ("Inspecting", "InspectPending")),
    "build": ("EngineBuilt", ("Building",)),
    "rollout": ("RollingOut", ("PodsStarting", "RolloutInProgress")),
}
"""Stage, the condition that reports it, and its reasons while the stage is under way."""

OURS = "app.kubernetes.io/managed-by=multimodal-operator"


@pytest.fixture(autouse=True)
def new_operators(installed: Installed) -> None:
    """Give each replica a new pod: the kubelet waits longer each time to restart a killed one."""
    where = ("-n", settings.SYSTEM_NAMESPACE)
    kubectl(installed.cluster, "delete", "pods", "--all", *where, "--timeout=60s")
    rollout = ("rollout", "status", f"deployment/{settings.RELEASE}", *where, "--timeout=120s")
    kubectl(installed.cluster, *rollout)


def holder(installed: Installed) -> str:
    where = ("--namespace", settings.SYSTEM_NAMESPACE)
    lease: dict[str, Any] = read(installed.cluster, "lease", settings.RELEASE, *where)
    return str(lease["spec"].get("holderIdentity") or "")


def kill_operators(installed: Installed, *, all_of_them: bool) -> str:
    """Kill the leader as the kernel would, or every replica; return the leader's identity."""
    identity = eventually(lambda: holder(installed))
    for pod in operator_pods(installed):
        if all_of_them or identity.startswith(pod["metadata"]["name"]):
            kill_container(pod, "mm-operator")
    return identity


def orphans(space: Space) -> list[str]:
    found = space.get(f"mmm,{CHILD_KINDS}").get("items", [])
    uids = {one["metadata"]["uid"] for one in found}
    return [
        f"{one['kind']}/{one['metadata']['name']}"
        for one in found
        if one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by")
        == "multimodal-operator"
        and not uids & {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())}
    ]


@pytest.mark.parametrize("all_of_them", [False, True], ids=["leader", "both-replicas"])
@pytest.mark.parametrize("stage", STAGES)
def test_the_next_one_finishes(alone: Space, stage: str, *, all_of_them: bool) -> None:
    """The model becomes Ready with one inspection, one build and one Deployment, no orphan left."""
    kind, reasons = STAGES[stage]
    build = {"resources": SLOW} if stage == "build" else {}
    before = pods_ever(alone, "")
    alone.apply(alone.model("held", "tiny", build=build))
    alone.wait_reason("held", kind, *reasons)

    killed = kill_operators(alone.installed, all_of_them=all_of_them)

    alone.wait_ready("held", timeout=400)
    made = [said for said in pods_ever(alone, "") if said not in before]
    assert holder(alone.installed) not in {"", killed}
    assert [len([one for one in made if word in one]) for word in ("held-inspect", "engine-")] == [
        1,
        1,
    ], made
    assert alone.read("held")["status"]["build"]["attempts"] == 1
    assert (alone.names("deployments"), orphans(alone)) == (["held"], [])

    alone.kubectl("delete", "mmm", "held", "--timeout=60s")
    mine = ("get", CHILD_KINDS, "-l", OURS, "-o", "name")
    eventually(lambda: not alone.kubectl(*mine).split(), showing=lambda: alone.kubectl(*mine))
