"""What keeps pods from becoming ready is reported in one sentence, the worst first."""

from datetime import UTC, datetime

from mm_operator.model import (
    DeploymentState,
    GpuFault,
    PodStart,
    PodState,
    VolumeFault,
    VolumeTrouble,
)
from mm_operator.plan.rollout_progress import first_obstacle, starts_in_progress
from mm_operator.plan.start_errors import lacking
from mm_operator.plan.volumes import waits_for_volume
from support.cases import cases


def deployment(*, observed: int = 1, updated: int = 1, **fields: str) -> DeploymentState:
    values: dict[str, str] = {"serving_hash": "new"} | fields
    return DeploymentState("llava", "uid", 1, observed, 1, 1, updated, 0, 0, **values)


def pod(**fields: object) -> PodState:
    values = {"serving_hash": "new", "phase": "Pending", "ready": False, "container": "server"}
    return PodState(**(values | fields))  # type: ignore[arg-type]


LIMITS = "failed quota: q: must specify limits.cpu for: server"
NO_SECRET = VolumeTrouble(VolumeFault.NOT_MOUNTED, "no secret")
NO_IMAGE = "container server does not start: its image cannot be pulled: "
NO_KEYS = {"waiting": "CreateContainerConfigError", "waiting_message": 'secret "nokeys" not found'}
BACK_OFF = 'Back-off pulling image "x:1": ErrImagePull: rpc error: code = NotFound desc = x:1: gone'
NO_PROGRAM = "executable file `mm-runtime` not found in $PATH: No such file"
ENDED = "Error with exit code 3: no manifest"
CRASHING = {"waiting": "CrashLoopBackOff"}


@cases(
    "state expected",
    {
        "quota": ({"replica_failure": "exceeded quota: pods=1"}, "QuotaExceeded"),
        "quota-on-limits": ({"replica_failure": LIMITS}, "QuotaExceeded"),
        "admission": ({"replica_failure": "violates PodSecurity"}, "FailedCreate"),
    },
)
def test_pods_that_are_refused(state: dict[str, str], expected: str) -> None:
    message = f"pods are refused: {state['replica_failure']}"
    assert first_obstacle(deployment(**state), ()) == (expected, message)


@cases(
    "fields reason message",
    {
        "unschedulable": (
            {"unschedulable": "0/1 nodes are available"},
            *("PodsUnschedulable", "no pod can be scheduled: 0/1 nodes are available"),
        ),
        "no-volume": (
            {"waiting": "ContainerCreating", "volume": NO_SECRET},
            *("VolumeUnavailable", waits_for_volume(NO_SECRET)),
        ),
        "image": (
            {"waiting": "ErrImagePull", "waiting_message": "not found"},
            *("ImagePullFailed", f"{NO_IMAGE}not found"),
        ),
        "image-that-is-waited-for": (
            {"waiting": "ImagePullBackOff", "waiting_message": BACK_OFF},
            *("ImagePullFailed", f"{NO_IMAGE}x:1: gone"),
        ),
        "image-that-is-no-name": (
            {"waiting": "InvalidImageName", "waiting_message": "couldn't parse x:::"},
            *("ImagePullFailed", f"{NO_IMAGE}couldn't parse x:::"),
        ),
        "secret": (
            {"container": "gateway", **NO_KEYS},
            "CreateContainerConfigError",
            'container gateway does not start: it cannot be created: secret "nokeys" not found',
        ),
        "warm-up": (
            {"start": PodStart("WarmingUp", None, "the question failed: 'x' is undefined")},
            *("WarmupFailed", "the warm-up fails each time: the question failed: 'x' is undefined"),
        ),
        "waiting-for-its-next-start": (
            {**CRASHING, "waiting_message": "back-off restarting", "last_end": ENDED},
            *("PodsCrashing", f"container server was restarted: {ENDED}"),
        ),
        "stock-image": (
            {**CRASHING, "last_end": f"StartError with exit code 128: exec: {NO_PROGRAM}"},
            *("ImageNotUsable", lacking("spec.runtime.image")),
        ),
        "stock-image-with-cri-o": (
            {"waiting": "CreateContainerError", "waiting_message": NO_PROGRAM},
            *("ImageNotUsable", lacking("spec.runtime.image")),
        ),
        "crash-without-details": (CRASHING, "PodsCrashing", "container server: CrashLoopBackOff"),
        "gpu-memory": (
            {**CRASHING, "gpu": GpuFault(usable=True, message="5 of 80 bytes are free")},
            *("GpuOutOfMemory", "5 of 80 bytes are free"),
        ),
        "no-gpu": (
            {**CRASHING, "gpu": GpuFault(usable=False, message="old driver")},
            *("GpuUnusable", "old driver"),
        ),
        "between-two-crashes": (
            *({"last_end": ENDED}, "PodsCrashing", f"container server was restarted: {ENDED}"),
        ),
    },
)
def test_first_obstacle_of_a_pod(fields: dict[str, object], reason: str, message: str) -> None:
    assert first_obstacle(deployment(), (pod(**fields),)) == (reason, message)


def test_a_rollout_that_stalls() -> None:
    state = deployment(stalled="has timed out progressing")
    message = "the rollout makes no progress: has timed out progressing"
    found = first_obstacle(state, (pod(waiting="ContainerCreating"),))
    assert found == ("PodsStarting", message)


@cases(
    "pods",
    {
        "starting": (pod(waiting="PodInitializing"),),
        "ready-again": (pod(ready=True, last_end="Error with exit code 1"),),
        "former-and-ending-pods": (
            pod(serving_hash="old", **CRASHING),
            pod(terminating=True, **CRASHING),
        ),
    },
)
def test_no_obstacle(pods: tuple[PodState, ...]) -> None:
    assert first_obstacle(deployment(), pods) is None


FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available"


def test_own_pods_that_hold_the_gpus_are_named() -> None:
    """Old pods that stay until the new one answers are the cause, with the way out."""
    old = pod(serving_hash="old", ready=True)
    found = first_obstacle(deployment(), (pod(unschedulable=FULL), old, old))
    assert found is not None
    reason, message = found
    assert reason == "PodsUnschedulable"
    assert FULL in message
    assert "own 2 pods of the former revision hold nvidia.com/gpu until" in message
    assert "set spec.rollout.strategy to Recreate" in message


def test_own_pods_that_hold_devices_are_named() -> None:
    """The scheduler says of claims only that they cannot be allocated."""
    said = "0/1 nodes are available: 1 cannot allocate all claims."
    pods = (pod(unschedulable=said), pod(serving_hash="old", ready=True))
    found = first_obstacle(deployment(), pods)
    assert found is not None
    assert "own 1 pod of the former revision holds the devices that it claims" in found[1]


def test_own_pods_that_end_are_waited_for() -> None:
    """With Recreate or without a surge, what holds the GPUs goes: nothing needs a person."""
    old = pod(serving_hash="old", ready=True, terminating=True)
    expected = "pods of the former revision hold nvidia.com/gpu until they ended"
    found = first_obstacle(deployment(), (pod(unschedulable=FULL), old))
    assert found == ("PodsStarting", expected)


@cases(
    "said former",
    {"no-former-pods": (FULL, ()), "nothing-lacks": ("1 node(s) had untolerated taint", ("old",))},
)
def test_others_that_hold_the_gpus_are_not_ours(said: str, former: tuple[str, ...]) -> None:
    """Where no pod of ours is in the way, the scheduler's words stand alone."""
    pods = (pod(unschedulable=said), *(pod(serving_hash=one, ready=True) for one in former))
    expected = ("PodsUnschedulable", f"no pod can be scheduled: {said}")
    assert expected == first_obstacle(deployment(), pods)


def test_what_starting_pods_do_is_reported() -> None:
    """How many load and warm up, and since when the first of each; others are not counted."""
    early, late = (datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC) for second in (5, 9))
    pods = (
        pod(start=PodStart("WarmingUp", late)),
        pod(start=PodStart("WarmingUp", early)),
        pod(start=PodStart("Loading", None)),
        pod(ready=True),
        pod(start=PodStart("Loading", early), serving_hash="old"),
        pod(start=PodStart("Loading", early), terminating=True),
    )
    reported = starts_in_progress(deployment(), pods)
    assert reported == "1 Loading, 2 WarmingUp since 2026-01-02T03:04:05Z"
    assert starts_in_progress(deployment(), pods[3:]) == ""


REFUSED = "pods is forbidden: no PriorityClass with name does-not-exist was found"
NEW, OLD = {"template": "6d4cf"}, {"template": "77b9f", "serving_hash": "old"}


@cases(
    "state pods expected",
    {
        "the-new-pod-lacks-a-secret": (
            deployment(replica_failure=REFUSED, refused_template="77b9f"),
            (pod(**NEW, **NO_KEYS),),
            "CreateContainerConfigError",
        ),
        "the-new-pod-loads": (
            deployment(replica_failure=REFUSED, refused_template="77b9f"),
            (pod(**NEW, start=PodStart("Loading", None)),),
            None,
        ),
        "a-second-new-pod-is-refused": (
            deployment(replica_failure=REFUSED, refused_template="6d4cf"),
            (pod(**NEW, start=PodStart("Loading", None)),),
            "FailedCreate",
        ),
        "a-former-pod-is-refused-before-there-are-new-ones": (
            deployment(replica_failure=REFUSED, refused_template="77b9f", updated=0),
            (pod(**OLD, ready=True),),
            None,
        ),
        "the-first-new-pod-is-refused": (
            deployment(replica_failure=REFUSED, refused_template="6d4cf", updated=0),
            (pod(**OLD, ready=True),),
            "FailedCreate",
        ),
        "a-webhook-names-no-pod-and-new-ones-exist": (
            deployment(replica_failure="admission webhook denied the request"),
            (pod(**NEW), pod(**OLD)),
            None,
        ),
        "a-webhook-names-no-pod-and-no-new-one-exists": (
            deployment(replica_failure="admission webhook denied the request", updated=0),
            (pod(**OLD, ready=True),),
            "FailedCreate",
        ),
        "the-controller-has-not-seen-the-spec": (
            deployment(replica_failure=REFUSED, stalled="timed out", observed=0),
            (),
            None,
        ),
    },
)
def test_a_former_revision_hides_nothing(
    state: DeploymentState, pods: tuple[PodState, ...], expected: str | None
) -> None:
    """A Deployment's conditions count where they are of the wanted revision's own pods."""
    found = first_obstacle(state, pods)
    assert expected == (found and found[0])
