"""What the operator changed waits for a turn; what a user changed does not."""

from dataclasses import replace

from mm_api.conditions import Reason
from mm_operator.errors import SpecError
from mm_operator.model import PodState, RolloutTurn, Turn
from mm_operator.plan.rollout_turns import rollout_turn_of
from support.cases import cases
from support.imagined_cluster import ImaginedCluster
from support.models import SETTINGS, tiny_facts

LATER, NOW = Turn(granted=False, most=2), Turn(granted=True, most=2)
STOPPED = Turn(granted=False, most=2, failing="team-b/broken")


def served(turn: Turn = LATER) -> ImaginedCluster:
    cluster = ImaginedCluster()
    cluster.apply("llava")
    grant(cluster, turn)
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.pods_ready("llava")
    return cluster


def grant(cluster: ImaginedCluster, turn: Turn) -> None:
    cluster.models["llava"] = replace(cluster.models["llava"], turn=turn)
    cluster.settle()


def upgrade(cluster: ImaginedCluster, image: str = "example.org/runtime:next") -> None:
    settings = replace(SETTINGS, runtime_image=image)
    cluster.models["llava"] = replace(cluster.models["llava"], settings=settings)
    cluster.settle()
    if cluster.open_jobs():  # another image builds another engine
        cluster.built()


def rollout(cluster: ImaginedCluster) -> RolloutTurn:
    return rollout_turn_of(cluster.snapshot("llava"), cluster.plans["llava"].rollout)


def revision(cluster: ImaginedCluster) -> str:
    return cluster.rolled["llava"].serving_hash


def test_an_upgrade_waits_and_the_model_serves() -> None:
    """The former pods stay, Ready stays True, and the condition says what it waits for."""
    cluster = served()
    before = revision(cluster)
    upgrade(cluster)
    assert revision(cluster) == before
    found = cluster.conditions("llava")
    assert (found["RollingOut"], found["Ready"], found["Degraded"]) == (
        "False WaitingForTurn",
        "True ReplicasAvailable",
        "False AsExpected",
    )
    assert "2 models roll out at a time" in cluster.message("llava", "RollingOut")
    assert rollout(cluster) == RolloutTurn(waits=True, use=1.0)


def test_a_turn_begins_the_rollout_and_its_end_frees_it() -> None:
    """The Deployment remembers that it goes by turns, for the next leader; complete, it is over."""
    cluster = served()
    before = revision(cluster)
    upgrade(cluster)
    grant(cluster, NOW)
    assert revision(cluster) != before
    assert cluster.rolled["llava"].by_turns
    assert rollout(cluster) == RolloutTurn(rolls=True, use=1.0)
    grant(cluster, LATER)  # what began continues
    assert rollout(cluster) == RolloutTurn(rolls=True, use=1.0)
    cluster.pods_ready("llava")
    assert rollout(cluster) == RolloutTurn()
    cluster.trouble("llava", PodState("", "Running", ready=False, waiting="CrashLoopBackOff"))
    cluster.rolled["llava"] = replace(cluster.rolled["llava"], available=0)
    cluster.settle()
    assert rollout(cluster) == RolloutTurn()  # a pod that crashes next week stops no upgrade


def test_a_change_of_the_spec_does_not_wait() -> None:
    """Neither in ordinary times, nor while an upgrade waits, nor when upgrades are stopped."""
    cluster = served()
    first = revision(cluster)
    cluster.apply("llava", {"runtime": {"podLabels": {"team": "a"}}})
    second = revision(cluster)
    assert first != second
    cluster.pods_ready("llava")
    upgrade(cluster)
    grant(cluster, STOPPED)
    assert revision(cluster) == second
    cluster.apply("llava", {"runtime": {"podLabels": {"team": "b"}}})
    assert revision(cluster) != second
    assert not cluster.rolled["llava"].by_turns


def test_replicas_are_no_turn() -> None:
    """Rolled out in an earlier turn and scaled while it waits for the next, a model still waits."""
    cluster = served()
    upgrade(cluster)
    grant(cluster, NOW)
    cluster.pods_ready("llava")
    grant(cluster, LATER)
    upgrade(cluster, "example.org/runtime:after-next")
    before = revision(cluster)
    cluster.apply("llava", {"replicas": 3})
    live = cluster.rolled["llava"]
    assert (revision(cluster), live.wanted) == (before, 3)
    assert live.observed_generation < live.generation  # the Deployment controller is behind
    assert rollout(cluster) == RolloutTurn(waits=True, use=3.0)


def test_the_mark_of_a_turn_goes_with_its_end() -> None:
    """Also when no operator looked while the rollout was complete, and a pod failed since."""
    cluster = served()
    upgrade(cluster)
    grant(cluster, NOW)
    state = cluster.rolled["llava"]
    cluster.rolled["llava"] = replace(
        state, observed_generation=state.generation, updated=1, was_complete=True, available=0
    )
    cluster.settle()
    assert not cluster.rolled["llava"].by_turns
    assert rollout(cluster) == RolloutTurn()


def test_a_stop_names_who_failed() -> None:
    cluster = served()
    upgrade(cluster)
    grant(cluster, STOPPED)
    assert cluster.conditions("llava")["RollingOut"] == "False RolloutsStopped"
    assert "team-b/broken failed" in cluster.message("llava", "RollingOut")


def test_a_stalled_rollout_has_failed() -> None:
    """What the Deployment controller gives up is a failure, as pods that crash are."""
    cluster = served()
    upgrade(cluster)
    grant(cluster, NOW)
    state = replace(cluster.rolled["llava"], stalled="it timed out progressing")
    cluster.rolled["llava"] = state
    cluster.settle()
    assert rollout(cluster).failure == "it timed out progressing"


@cases(
    "pod failed",
    {
        "no-node-yet": (PodState("", "Pending", ready=False, unschedulable="no node"), False),
        "crashing": (PodState("", "Running", ready=False, waiting="CrashLoopBackOff"), True),
    },
)
def test_what_counts_as_a_failure(pod: PodState, *, failed: bool) -> None:
    """Pods that crash stop the others at once; a pod without a node only keeps its turn."""
    cluster = served()
    upgrade(cluster)
    grant(cluster, NOW)
    cluster.trouble("llava", pod)
    assert (rollout(cluster).rolls, bool(rollout(cluster).failure)) == (True, failed)


def damage_the_spec(cluster: ImaginedCluster) -> None:
    error = SpecError(Reason.INVALID_SPEC, "unknown field")
    model = cluster.models["llava"]
    cluster.models["llava"] = replace(model, spec=None, spec_error=error)
    cluster.settle()


def test_an_invalid_spec_keeps_the_turn_of_what_rolls() -> None:
    """Its pods are being replaced all the same; complete, the turn is free."""
    cluster = served()
    upgrade(cluster)
    grant(cluster, NOW)
    damage_the_spec(cluster)
    kept = rollout(cluster)
    assert (kept.rolls, kept.failure) == (True, "")
    cluster.pods_ready("llava")
    assert not rollout(cluster).rolls


def test_an_invalid_spec_hides_no_failure() -> None:
    """Pods that crash stop the others, whatever the spec says by then."""
    cluster = served()
    upgrade(cluster)
    grant(cluster, NOW)
    damage_the_spec(cluster)
    cluster.trouble("llava", PodState("", "Running", ready=False, waiting="CrashLoopBackOff"))
    assert "CrashLoopBackOff" in rollout(cluster).failure


def test_requests_count_before_replicas() -> None:
    """Where the autoscaler sees requests, a model of many idle replicas goes first."""
    cluster = served()
    upgrade(cluster)
    model = cluster.models["llava"]
    seen = {**model.status, "scaling": {"inputs": {"requestsPerSecond": 0.25}}}
    assert rollout_turn_of(
        replace(cluster.snapshot("llava"), status=seen), cluster.plans["llava"].rollout
    ) == RolloutTurn(waits=True, use=0.25)
