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


@cases(
    "state pods expected",
    {
        "quota": (
            deployment(replica_failure="exceeded quota: pods=1"),
            (),
            ("QuotaExceeded", "pods are refused: exceeded quota: pods=1"),
        ),
        "admission": (
            deployment(replica_failure="violates PodSecurity"),
            (),
            ("FailedCreate", "pods are refused: violates PodSecurity"),
        ),
        "unschedulable": (
            deployment(),
            (pod(unschedulable="0/1 nodes are available"),),
            ("PodsUnschedulable", "no pod can be scheduled: 0/1 nodes are available"),
        ),
        "quota-on-limits": (
            deployment(replica_failure="failed quota: q: must specify limits.cpu for: server"),
            (),
            (
                "QuotaExceeded",
                "pods are refused: failed quota: q: must specify limits.cpu for: server",
            ),
        ),
        "no-volume": (
            deployment(),
            (
                pod(
                    waiting="ContainerCreating",
                    volume=VolumeTrouble(VolumeFault.NOT_MOUNTED, "no secret"),
                ),
            ),
            (
                "VolumeUnavailable",
                waits_for_volume(VolumeTrouble(VolumeFault.NOT_MOUNTED, "no secret")),
            ),
        ),
        "image": (
            deployment(),
            (pod(waiting="ErrImagePull", waiting_message="not found"),),
            (
                "ImagePullFailed",
                "container server does not start: its image cannot be pulled: not found",
            ),
        ),
        "image-that-is-waited-for": (
            deployment(),
            (
                pod(
                    waiting="ImagePullBackOff",
                    waiting_message='Back-off pulling image "x:1": ErrImagePull: rpc error: '
                    "code = NotFound desc = x:1: not found",
                ),
            ),
            (
                "ImagePullFailed",
                "container server does not start: its image cannot be pulled: x:1: not found",
            ),
        ),
        "image-that-is-no-name": (
            deployment(),
            (pod(waiting="InvalidImageName", waiting_message="couldn't parse x:::"),),
            (
                "ImagePullFailed",
                "container server does not start: its image cannot be pulled: couldn't parse x:::",
            ),
        ),
        "secret": (
            deployment(),
            (
                pod(
                    container="gateway",
                    waiting="CreateContainerConfigError",
                    waiting_message='secret "nokeys" not found',
                ),
            ),
            (
                "CreateContainerConfigError",
                'container gateway does not start: it cannot be created: secret "nokeys" not found',
            ),
        ),
        "warm-up": (
            deployment(),
            (pod(start=PodStart("WarmingUp", None, "the question failed: 'x' is undefined")),),
            ("WarmupFailed", "the warm-up fails each time: the question failed: 'x' is undefined"),
        ),
        "waiting-for-its-next-start": (
            deployment(),
            (
                pod(
                    waiting="CrashLoopBackOff",
                    waiting_message="back-off restarting failed container",
                    last_end="Error with exit code 3: no manifest",
                ),
            ),
            ("PodsCrashing", "container server was restarted: Error with exit code 3: no manifest"),
        ),
        "stock-image": (
            deployment(),
            (
                pod(
                    waiting="CrashLoopBackOff",
                    last_end='StartError with exit code 128: exec: "mm-runtime": executable file '
                    "not found in $PATH: unknown",
                ),
            ),
            ("ImageNotUsable", lacking("spec.runtime.image")),
        ),
        "stock-image-with-cri-o": (
            deployment(),
            (
                pod(
                    waiting="CreateContainerError",
                    waiting_message="executable file `mm-runtime` not found in $PATH: No such file",
                ),
            ),
            ("ImageNotUsable", lacking("spec.runtime.image")),
        ),
        "crash-without-details": (
            deployment(),
            (pod(waiting="CrashLoopBackOff"),),
            ("PodsCrashing", "container server: CrashLoopBackOff"),
        ),
        "gpu-memory": (
            deployment(),
            (
                pod(
                    waiting="CrashLoopBackOff",
                    gpu=GpuFault(usable=True, message="5 of 80 bytes are free"),
                ),
            ),
            ("GpuOutOfMemory", "5 of 80 bytes are free"),
        ),
        "no-gpu": (
            deployment(),
            (pod(waiting="CrashLoopBackOff", gpu=GpuFault(usable=False, message="old driver")),),
            ("GpuUnusable", "old driver"),
        ),
        "between-two-crashes": (
            deployment(),
            (pod(last_end="Error with exit code 3: no manifest"),),
            ("PodsCrashing", "container server was restarted: Error with exit code 3: no manifest"),
        ),
        "stalled": (
            deployment(stalled="has timed out progressing"),
            (pod(waiting="ContainerCreating"),),
            ("PodsStarting", "the rollout makes no progress: has timed out progressing"),
        ),
        "starting": (deployment(), (pod(waiting="PodInitializing"),), None),
        "ready-again": (deployment(), (pod(ready=True, last_end="Error with exit code 1"),), None),
        "old-and-ending-pods-do-not-count": (
            deployment(),
            (
                pod(serving_hash="old", waiting="CrashLoopBackOff"),
                pod(terminating=True, waiting="CrashLoopBackOff"),
            ),
            None,
        ),
    },
)
def test_first_obstacle(
    state: DeploymentState, pods: tuple[PodState, ...], expected: tuple[str, str] | None
) -> None:
    assert expected == first_obstacle(state, pods)


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
            (
                pod(
                    **NEW,
                    waiting="CreateContainerConfigError",
                    waiting_message='secret "nokeys" not found',
                ),
            ),
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
