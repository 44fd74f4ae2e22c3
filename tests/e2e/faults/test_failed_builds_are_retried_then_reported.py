"""A build that fails is tried again after a pause; then the model says why; more tries follow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from support.builds import SLOW, build_only, build_pods, first_build, running_build
from support.eventually import eventually
from support.installed import Space
from support.outside import kill_container

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

RETRIES = 1
PAUSE_SECONDS = 5
"""A Job waits 10 s before its second pod; timestamps are complete seconds and the watch is late."""

COMMAND = "-m mm_runtime.engine_build.commands."
"""Stands in the first line of every step's log."""


@dataclass(frozen=True)
class Fault:
    """What is done to a build, and how it is reported."""

    batch: int
    """Batch size of the engine: each fault gets a build of its own."""
    build: dict[str, Any]
    reason: str
    message: str
    """Regular expression for the first line."""
    exit_code: int | None
    """None: the kubelet gives an evicted pod no time, so it may not be known."""


FAULTS = {
    "out-of-memory": Fault(
        2,
        {"resources": {"limits": {"memory": "100Mi"}, "requests": {"cpu": "100m"}}},
        "BuildOutOfMemory",
        r"step export-vision was killed: it needed more memory .*\(exit code 137\)",
        137,
    ),
    "out-of-time": Fault(
        3,
        {"resources": SLOW, "timeout": "20s"},
        "BuildTimedOut",
        r"step [a-z-]+ ran longer than spec\.build\.timeout \(exit code 143\)",
        143,
    ),
    "evicted": Fault(
        5,
        {"resources": {**SLOW, "limits": {**SLOW["limits"], "ephemeral-storage": "1Ki"}}},
        "BuildEvicted",
        # The kubelet may be quicker than the first step.
        r"(step [a-z-]+|the build) lost its pod "
        r"\(Evicted, exit code (137|143): .*ephemeral local storage",
        None,
    ),
}


@pytest.fixture(name="failing", scope="module")
def models_that_fail(space: Space) -> Iterator[Space]:
    """Apply the models side by side: each takes half a minute to fail twice."""
    for name, fault in FAULTS.items():
        build = {"store": {"size": "1Gi"}, "retries": RETRIES, **fault.build}
        engine = {"maxBatchSize": fault.batch}
        space.apply(build_only(space, name, "good", build=build, engine=engine))
    yield space
    space.kubectl("delete", "mmm", *FAULTS, "--timeout=60s")


def failed_at(pod: dict[str, Any]) -> datetime:
    ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
    return datetime.fromisoformat(ready["lastTransitionTime"])


def wait_for_step(space: Space, pod: str) -> None:
    eventually(lambda: COMMAND in space.kubectl("logs", pod))


@pytest.mark.parametrize("name", FAULTS)
def test_step_exit_code_and_last_lines_are_reported(failing: Space, name: str) -> None:
    fault = FAULTS[name]
    job = first_build(failing, name)
    # The first pod's cause is there at once; the message counts pods from the second on.
    tries = f"(pods that failed: {RETRIES + 1})"
    condition = failing.wait(name, "EngineBuilt", lambda one: tries in one.message)
    pods = build_pods(failing, job)
    first, *rest = condition.message.splitlines()
    build = failing.read(name)["status"]["build"]

    assert (condition.status, condition.reason) == ("False", fault.reason)
    assert re.match(fault.message, first), condition.message
    # What is evicted before its first step has no step to name, and no line of one.
    in_step = first.startswith("step ")
    assert any(COMMAND in line for line in rest) == in_step, condition.message
    assert build.get("failedStep", "the build") in first
    assert fault.exit_code in {None, build.get("exitCode")}
    assert failing.condition(name, "Degraded").reason == fault.reason
    assert len(pods) == RETRIES + 1
    chosen = f"involvedObject.name={name},type=Warning,reason={fault.reason}"
    assert eventually(lambda: failing.get("events", "--field-selector", chosen).get("items"))
    begun = datetime.fromisoformat(pods[1]["metadata"]["creationTimestamp"])
    assert (begun - failed_at(pods[0])).total_seconds() >= PAUSE_SECONDS


def test_another_job_follows_by_itself(failing: Space) -> None:
    name = "out-of-memory"

    def attempts() -> int:
        return int(failing.read(name)["status"].get("build", {}).get("attempts") or 0)

    eventually(lambda: attempts() > 1, seconds=180, pause_seconds=1, showing=attempts)


def test_a_build_whose_container_is_killed_has_left_word(space: Space) -> None:
    """SIGKILL of the container leaves no time to report: step and last lines were there before."""
    build = {"store": {"size": "1Gi"}, "retries": RETRIES, "resources": SLOW}
    space.apply(build_only(space, "killed", "good", build=build, engine={"maxBatchSize": 6}))
    job = first_build(space, "killed")
    name = ""
    for _ in range(RETRIES + 1):
        pod = running_build(space, job, after=name)
        name = pod["metadata"]["name"]
        wait_for_step(space, name)
        kill_container(pod, "mm-runtime")

    condition = space.wait("killed", "EngineBuilt", lambda one: one.reason == "StepFailed")

    assert re.match(r"step [a-z-]+ ended with exit code 137: ", condition.message)
    assert COMMAND in condition.message
    space.kubectl("delete", "mmm", "killed", "--timeout=60s")
