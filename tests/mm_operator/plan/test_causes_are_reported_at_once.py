"""What keeps a Job from its work is reported by the first pod that knows it."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api import labels
from mm_api.documents.build_result import BuildFailure, BuildResult
from mm_api.documents.model_facts import InspectError, InspectReason, InspectResult
from mm_operator import names
from mm_operator.model import JobPhase, JobState, Observed, Outcome, PodEnd, Snapshot
from mm_operator.plan import decide
from mm_operator.plan.inspection import inputs_hash
from mm_operator.status.derive import derive
from support.cases import cases
from support.models import EPOCH, snapshot_of, spec_of
from support.staged import inspected

SENTENCE = "The repository cannot be reached (ConnectError)."


def inspecting(phase: JobPhase, **fields: Any) -> Snapshot:
    hash_ = inputs_hash(spec_of(), 0)
    marks = {labels.INPUTS_HASH: hash_, labels.ATTEMPT: "1"}
    name = names.inspect_job("llava", hash_, 1)
    job = JobState(name, "uid", phase, EPOCH, annotations=marks, **fields)
    return snapshot_of(observed=Observed(jobs={job.name: job}))


def building(phase: JobPhase, **fields: Any) -> Snapshot:
    """Return a model with its first build Job."""
    snapshot, plan = inspected()
    marks = {labels.ATTEMPT: "1"}
    job = JobState(f"{plan.engine_config}-1", "uid", phase, EPOCH, annotations=marks, **fields)
    state = snapshot.observed.engines[plan.engine_config]
    engines = {plan.engine_config: replace(state, jobs=(job,))}
    return replace(snapshot, observed=replace(snapshot.observed, engines=engines))


def reported(snapshot: Snapshot) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and message of each condition."""
    status = derive(snapshot, decide(snapshot), Outcome())
    return {
        one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]
    }


def inspect_end() -> PodEnd:
    error = InspectError(reason=InspectReason.SOURCE_UNAVAILABLE, message=SENTENCE)
    return PodEnd("a", succeeded=False, exit_code=3, message=InspectResult(error=error).to_json())


def build_end(snapshot: Snapshot) -> PodEnd:
    plan = decide(snapshot).build_plan
    assert plan is not None
    failure = BuildFailure(
        reason="StoreNotWritable", step="fetch", exit_code=4, message=SENTENCE, retryable=True
    )
    result = BuildResult(fingerprint=plan.fingerprint, failure=failure)
    return PodEnd("a", succeeded=False, exit_code=4, message=result.to_json())


def test_the_first_failed_inspection_reports_its_cause() -> None:
    found = reported(inspecting(JobPhase.PENDING, failed_pods=1, ends=(inspect_end(),)))
    cause = "The repository cannot be reached (ConnectError); it is retried automatically"
    waits = ("False", "SourceUnavailable", f"{cause}: it waits for its next pod")
    assert (found["Ready"], found["Planned"], found["Degraded"]) == (
        waits,
        waits,
        ("True", "SourceUnavailable", cause),
    )


def test_the_first_failed_build_reports_its_cause() -> None:
    end = build_end(building(JobPhase.PENDING))
    found = reported(building(JobPhase.PENDING, failed_pods=1, ends=(end,)))
    cause = (
        "step fetch ended with exit code 4: The repository cannot be reached (ConnectError); it is "
        "retried automatically"
    )
    waits = ("False", "StoreNotWritable", f"{cause}: it waits for its next pod")
    assert (found["Ready"], found["EngineBuilt"], found["Degraded"]) == (
        waits,
        waits,
        ("True", "StoreNotWritable", cause),
    )


@cases(
    "snapshot",
    {
        "inspection": inspecting(JobPhase.RUNNING, failed_pods=1, ends=(inspect_end(),)),
        "build": building(
            JobPhase.RUNNING, failed_pods=1, ends=(build_end(building(JobPhase.PENDING)),)
        ),
    },
)
def test_the_cause_stays_while_the_next_pod_runs(snapshot: Snapshot) -> None:
    """Degraded does not go and come again with each attempt, and Ready says what it was."""
    found = reported(snapshot)
    status, _, message = found["Degraded"]
    assert (status, "cannot be reached" in message, "before: " in found["Ready"][2]) == (
        "True",
        True,
        True,
    )


def test_an_evicted_build_needs_no_person() -> None:
    """The cluster took its pod and gives it another one."""
    end = PodEnd("a", succeeded=False, exit_code=143, pod_reason="Evicted")
    found = reported(building(JobPhase.PENDING, failed_pods=1, ends=(end,)))
    assert (found["Degraded"][:2], found["EngineBuilt"][1]) == (
        ("False", "AsExpected"),
        "BuildEvicted",
    )


CLAIM, CONTAINER, REFUSED = "PodsUnschedulable", "CreateContainerConfigError", "FailedCreate"
FORBIDDEN = 'Error creating: pods "a" is forbidden: '


@cases(
    "waiting reason",
    {
        "claim": ('0/1 nodes are available: persistentvolumeclaim "nope" not found.', CLAIM),
        "volume": (
            'persistentvolumeclaim "nope" bound to non-existent persistentvolume "pv"',
            CLAIM,
        ),
        "secret": (f'{CONTAINER}: secret "nokeys" not found', CONTAINER),
        "configmap": (f'{CONTAINER}: configmap "none" not found', CONTAINER),
        "key": (f"{CONTAINER}: couldn't find key token in Secret demo/keys", CONTAINER),
        "service-account": (
            (
                f"{FORBIDDEN}error looking up service account demo/absent: serviceaccount "
                '"absent" not found'
            ),
            REFUSED,
        ),
        "priority-class": (f"{FORBIDDEN}no PriorityClass with name urgent was found", REFUSED),
        "runtime-class": (f'{FORBIDDEN}pod rejected: RuntimeClass "gvisor" not found', REFUSED),
        "hook": ('Error creating: admission webhook "w" denied the request: no team', REFUSED),
    },
)
@pytest.mark.parametrize("stage", [inspecting, building], ids=["inspection", "build"])
def test_what_is_missing_needs_a_person(stage: Any, waiting: str, reason: str) -> None:
    """A name that leads nowhere does not come by waiting."""
    found = reported(stage(JobPhase.PENDING, waiting=waiting))
    named = waiting.removeprefix(f"{CONTAINER}: ").rstrip(".")
    assert (found["Ready"][1], found["Degraded"][:2], named in found["Degraded"][2]) == (
        reason,
        ("True", reason),
        True,
    )


@pytest.mark.parametrize(
    "waiting",
    [
        "ErrImagePull: no such image",
        "ImagePullBackOff: Back-off pulling image",
        "InvalidImageName: x",
        "ErrImageNeverPull: x",
    ],
)
@pytest.mark.parametrize("stage", [inspecting, building], ids=["inspection", "build"])
def test_an_image_that_cannot_be_pulled_needs_a_person(stage: Any, waiting: str) -> None:
    found = reported(stage(JobPhase.PENDING, waiting=waiting))
    assert (found["Degraded"][:2], "spec.build.image" in found["Degraded"][2]) == (
        ("True", "ImagePullFailed"),
        True,
    )


@cases(
    "waiting",
    {
        "no-room-yet": "0/3 nodes are available: 3 Insufficient cpu.",
        "the-claim-that-the-operator-makes": (
            '0/1 nodes are available: persistentvolumeclaim "multimodal-store" not found.'
        ),
        "nothing-known": "",
    },
)
def test_what_comes_by_waiting_needs_no_person(waiting: str) -> None:
    """An autoscaler adds nodes, and the operator's own claim is on its way."""
    found = reported(building(JobPhase.PENDING, waiting=waiting))
    assert (found["Degraded"][:2], found["EngineBuilt"][1]) == (
        ("False", "AsExpected"),
        "BuildPending",
    )
