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
from support.golden import Golden


def deployment(*, observed: int = 1, updated: int = 1, **fields: str) -> DeploymentState:
    values: dict[str, str] = {"serving_hash": "new"} | fields
    return DeploymentState("llava", "uid", 1, observed, 1, 1, updated, 0, 0, **values)


def pod(**fields: object) -> PodState:
    values = {"serving_hash": "new", "phase": "Pending", "ready": False, "container": "server"}
    return PodState(**(values | fields))  # type: ignore[arg-type]


def answer_of(state: DeploymentState, *pods: PodState) -> list[str] | None:
    found = first_obstacle(state, pods)
    return found and [*map(str, found)]


LIMITS = "failed quota: q: must specify limits.cpu for: server"
NO_SECRET = VolumeTrouble(VolumeFault.NOT_MOUNTED, "no secret")
NO_KEYS = {"waiting": "CreateContainerConfigError", "waiting_message": 'secret "nokeys" not found'}
BACK_OFF = 'Back-off pulling image "x:1": ErrImagePull: rpc error: code = NotFound desc = x:1: gone'
NO_PROGRAM = "executable file `mm-runtime` not found in $PATH: No such file"
ENDED = "Error with exit code 3: no manifest"
CRASHING = {"waiting": "CrashLoopBackOff"}


PODS: dict[str, dict[str, object]] = {
    "unschedulable": {"unschedulable": "0/1 nodes are available"},
    "no-volume": {"waiting": "ContainerCreating", "volume": NO_SECRET},
    "image": {"waiting": "ErrImagePull", "waiting_message": "not found"},
    "image-that-is-waited-for": {"waiting": "ImagePullBackOff", "waiting_message": BACK_OFF},
    "image-that-is-no-name": {
        "waiting": "InvalidImageName",
        "waiting_message": "couldn't parse x:::",
    },
    "secret": {"container": "gateway", **NO_KEYS},
    "warm-up": {"start": PodStart("WarmingUp", None, "the question failed: 'x' is undefined")},
    "waiting-for-its-next-start": {
        **CRASHING,
        "waiting_message": "back-off restarting",
        "last_end": ENDED,
    },
    "stock-image": {**CRASHING, "last_end": f"StartError with exit code 128: exec: {NO_PROGRAM}"},
    "stock-image-with-cri-o": {"waiting": "CreateContainerError", "waiting_message": NO_PROGRAM},
    "crash-without-details": CRASHING,
    "gpu-memory": {**CRASHING, "gpu": GpuFault(usable=True, message="5 of 80 bytes are free")},
    "no-gpu": {**CRASHING, "gpu": GpuFault(usable=False, message="old driver")},
    "between-two-crashes": {"last_end": ENDED},
}


def test_first_obstacle_of_a_pod(golden: Golden) -> None:
    found = {name: answer_of(deployment(), pod(**fields)) for name, fields in PODS.items()}
    golden.check_yaml("obstacles-of-a-pod.yaml", found)


def test_what_starting_pods_do_is_reported() -> None:
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


FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available"
CLAIMS = "0/1 nodes are available: 1 cannot allocate all claims."
FORMER = pod(serving_hash="old", ready=True)
ROLLOUTS: dict[str, tuple[DeploymentState, tuple[PodState, ...]]] = {
    "the-new-pod-lacks-a-secret": (
        deployment(replica_failure=REFUSED, refused_template="77b9f"),
        (pod(**NEW, **NO_KEYS),),
    ),
    "the-new-pod-loads": (
        deployment(replica_failure=REFUSED, refused_template="77b9f"),
        (pod(**NEW, start=PodStart("Loading", None)),),
    ),
    "a-second-new-pod-is-refused": (
        deployment(replica_failure=REFUSED, refused_template="6d4cf"),
        (pod(**NEW, start=PodStart("Loading", None)),),
    ),
    "a-former-pod-is-refused-before-there-are-new-ones": (
        deployment(replica_failure=REFUSED, refused_template="77b9f", updated=0),
        (pod(**OLD, ready=True),),
    ),
    "the-first-new-pod-is-refused": (
        deployment(replica_failure=REFUSED, refused_template="6d4cf", updated=0),
        (pod(**OLD, ready=True),),
    ),
    "a-webhook-names-no-pod-and-new-ones-exist": (
        deployment(replica_failure="admission webhook denied the request"),
        (pod(**NEW), pod(**OLD)),
    ),
    "a-webhook-names-no-pod-and-no-new-one-exists": (
        deployment(replica_failure="admission webhook denied the request", updated=0),
        (pod(**OLD, ready=True),),
    ),
    "the-controller-has-not-seen-the-spec": (
        deployment(replica_failure=REFUSED, stalled="timed out", observed=0),
        (),
    ),
    "quota": (deployment(replica_failure="exceeded quota: pods=1"), ()),
    "quota-on-limits": (deployment(replica_failure=LIMITS), ()),
    "admission": (deployment(replica_failure="violates PodSecurity"), ()),
    "a-rollout-that-stalls": (
        deployment(stalled="has timed out progressing"),
        (pod(waiting="ContainerCreating"),),
    ),
    "starting": (deployment(), (pod(waiting="PodInitializing"),)),
    "ready-again": (deployment(), (pod(ready=True, last_end="Error with exit code 1"),)),
    "former-and-ending-pods-crash": (
        deployment(),
        (pod(serving_hash="old", **CRASHING), pod(terminating=True, **CRASHING)),
    ),
    "own-pods-hold-the-gpus": (deployment(), (pod(unschedulable=FULL), FORMER, FORMER)),
    "own-pod-holds-the-devices": (deployment(), (pod(unschedulable=CLAIMS), FORMER)),
    "own-pod-that-holds-the-gpus-ends": (
        deployment(),
        (pod(unschedulable=FULL), pod(serving_hash="old", ready=True, terminating=True)),
    ),
    "others-hold-the-gpus": (deployment(), (pod(unschedulable=FULL),)),
    "nothing-lacks": (deployment(), (pod(unschedulable="untolerated taint"), FORMER)),
}


def test_first_obstacle_of_a_rollout(golden: Golden) -> None:
    """A Deployment's conditions count where they are of the wanted revision's own pods."""
    found = {name: answer_of(state, *pods) for name, (state, pods) in ROLLOUTS.items()}
    golden.check_yaml("obstacles-of-a-rollout.yaml", found)
