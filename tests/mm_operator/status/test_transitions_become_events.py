"""Events between two statuses: one for each change that reports people something."""

from typing import Any

from mm_operator.status.events import MESSAGE_LIMIT, Event, transitions
from support.golden import Golden


def status(*conditions: tuple[str, str, str, str]) -> dict[str, Any]:
    keys = ("type", "status", "reason", "message")
    return {"conditions": [dict(zip(keys, one, strict=True)) for one in conditions]}


CONDITIONS = {
    "ready": ("Ready", "True", "ReplicasAvailable", "1 replica answers"),
    "reported-elsewhere": ("Ready", "False", "Building", "building"),
    "ready-has-said-it": (
        "Available",
        "True",
        "ReplicasAvailable",
        "1 replica of any revision answers",
    ),
    "nothing-to-report": ("Degraded", "False", "AsExpected", "fine"),
    "under-way": ("EngineBuilt", "False", "Building", "being built"),
    "a-rollout-passes": ("RollingOut", "True", "PodsStarting", "0 of 2"),
    "failed": ("EngineBuilt", "False", "BuildFailed", "broken"),
    "degraded": ("Degraded", "True", "ClusterError", "HTTP 500"),
}


def test_one_condition(golden: Golden) -> None:
    found = {
        name: [str(one) for one in transitions({}, status(condition))]
        for name, condition in CONDITIONS.items()
    }
    golden.check_yaml("events.yaml", found)


def test_same_reason_is_reported_once() -> None:
    before = status(("RollingOut", "True", "PodsStarting", "0 of 2"))
    after = status(("RollingOut", "True", "PodsStarting", "1 of 2"))
    assert transitions(before, after) == ()


def test_degraded_makes_its_cause_a_warning() -> None:
    """A text that two conditions share is reported once, as a warning."""
    text = "container server: CrashLoopBackOff"
    after = status(
        ("RollingOut", "True", "PodsCrashing", text), ("Degraded", "True", "PodsCrashing", text)
    )
    (event,) = transitions({}, after)
    assert (event.type, event.message) == ("Warning", f"RollingOut: {text}")


def test_long_texts_fit_into_an_event() -> None:
    """The API server refuses notes above 1,024 bytes; cutting never splits a character."""
    after = status(("EngineBuilt", "False", "BuildFailed", "ü" * 2000))
    (event,) = transitions({}, after)
    assert (len(event.message.encode()), event.message.endswith("ü")) == (MESSAGE_LIMIT - 1, True)


def moves(*changes: tuple[int, int]) -> dict[str, Any]:
    """Return a status with these changes of the replicas, newest first, a minute apart."""
    history = [
        {
            "time": str(len(changes) - number),
            "fromReplicas": old,
            "toReplicas": new,
            "reason": "Why",
        }
        for number, (old, new) in enumerate(changes)
    ]
    return {"scaling": {"history": history}}


def test_each_change_of_the_replicas_is_reported_once() -> None:
    assert transitions(moves((1, 2)), moves((3, 1), (2, 3), (1, 2))) == (
        Event("Normal", "ScaledUp", "replicas 2 -> 3: Why"),
        Event("Normal", "ScaledDown", "replicas 3 -> 1: Why"),
    )
    assert transitions(moves((1, 2)), moves((1, 2))) == ()
    encoders = [{"encoders": one} for one in (moves(), moves((1, 3)))]
    assert transitions(*encoders) == (Event("Normal", "ScaledUp", "encoders 1 -> 3: Why"),)
