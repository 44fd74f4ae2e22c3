"""What the planner reads of pods, Jobs and Deployments: from their status to records."""

from typing import Any

import pytest

from mm_api import labels
from mm_operator.cluster.deployments import deployment_state
from mm_operator.cluster.jobs import job_state
from mm_operator.cluster.pods import needs_log, pod_end, pod_state, why_not_running
from mm_operator.cluster.refusals import stage_error
from mm_operator.errors import ClusterError
from mm_operator.model import GpuFault
from support.cases import cases

MADE = "2026-01-02T03:04:05Z"


def container(name: str = "build", **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": "running" in state, "restartCount": 0, "state": state}


def pod(*containers: dict[str, Any], uid: str = "p", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "pod-x1", "uid": uid, "ownerReferences": [{"uid": "job"}]},
        "status": {"containerStatuses": list(containers), **status},
    }


def job(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "engine-1", "uid": "job", "creationTimestamp": MADE},
        "status": {"conditions": list(conditions), **status},
    }


def holds(kind: str, **fields: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": MADE, **fields}


def test_an_oom_kill_is_reported() -> None:
    killed = container(terminated={"exitCode": 137, "reason": "OOMKilled", "finishedAt": MADE})
    found = pod(killed, phase="Failed")
    end = pod_end(found, ("last",))

    assert end is not None
    assert (end.reason, end.exit_code, end.succeeded, end.log_tail) == (
        "OOMKilled",
        137,
        False,
        ("last",),
    )
    assert needs_log(found) == "build"


def at(second: int) -> str:
    return f"2026-01-02T03:04:{second:02}Z"


@cases(
    "encoder pull ready expected",
    {
        "nothing-runs": ({}, {}, ("False", 1), None),
        "its-engine-is-fetched": (
            {},
            {"state": {"running": {"startedAt": at(3)}}},
            ("False", 1),
            ("Loading", 3),
        ),
        "loads": (
            {"state": {"running": {"startedAt": at(5)}}, "started": False},
            {"state": {"terminated": {"exitCode": 0}}},
            ("False", 1),
            ("Loading", 5),
        ),
        "was-ready-before": (
            {"state": {"running": {"startedAt": at(5)}}, "started": True},
            {},
            ("False", 30),
            ("Loading", 30),
        ),
        "ready": (
            {"state": {"running": {"startedAt": at(5)}}, "started": True},
            {},
            ("True", 30),
            None,
        ),
    },
)
def test_what_a_starting_encoder_does_is_known(
    encoder: dict[str, Any],
    pull: dict[str, Any],
    ready: tuple[str, int],
    expected: tuple[str, int] | None,
) -> None:
    """The server of an encoder's pod is no sidecar, and no gateway warms it up."""
    status, second = ready
    found = pod(
        container("encoder") | encoder,
        initContainerStatuses=[container("pull") | pull],
        conditions=[{"type": "Ready", "status": status, "lastTransitionTime": at(second)}],
    )
    found["metadata"]["labels"] = {labels.APP_COMPONENT: labels.Component.ENCODER}
    start = pod_state(found).start
    assert expected == (start and start.since and (start.phase, start.since.second))


@cases(
    "server conditions expected",
    {
        "server-does-not-run": ({}, {"Ready": ("False", 1)}, None),
        "loads": (
            {"state": {"running": {"startedAt": at(5)}}, "started": False},
            {"Ready": ("False", 1), "Initialized": ("False", 1)},
            ("Loading", 5),
        ),
        "warms-up": (
            {"state": {"running": {"startedAt": at(5)}}, "started": True},
            {"Ready": ("False", 1), "Initialized": ("True", 9)},
            ("WarmingUp", 9),
        ),
        "ready": (
            {"state": {"running": {"startedAt": at(5)}}, "started": True},
            {"Ready": ("True", 12), "Initialized": ("True", 9)},
            None,
        ),
        "was-ready-before": (
            {"state": {"running": {"startedAt": at(5)}}, "started": True},
            {"Ready": ("False", 30), "Initialized": ("True", 9)},
            ("WarmingUp", 30),
        ),
    },
)
def test_what_a_starting_pod_does_is_known(
    server: dict[str, Any], conditions: dict[str, tuple[str, int]], expected: tuple[str, int] | None
) -> None:
    """The server's startup probe parts loading from warming up; the later moment is reported."""
    found = pod(
        initContainerStatuses=[{"name": "server", "restartCount": 0} | server],
        conditions=[
            {"type": kind, "status": status, "lastTransitionTime": at(second)}
            for kind, (status, second) in conditions.items()
        ],
    )
    start = pod_state(found).start
    assert expected == (start and start.since and (start.phase, start.since.second))


@cases(
    "changes expected",
    {
        "first-attempt": ({}, 5.0),
        "second-attempt": ({"restartCount": 1}, None),
        "runs-not": ({"state": {}}, None),
        "not-up-yet": ({"initialized": "False"}, None),
    },
)
def test_loads_are_measured(changes: dict[str, Any], expected: float | None) -> None:
    """From the sidecar running to the pod being initialized, when nothing interrupted it."""
    up = {"status": "True", "lastTransitionTime": "2026-01-02T03:04:10Z"}
    pulled = container("pull", terminated={"exitCode": 0})
    server = container("server", running={"startedAt": MADE})
    given = dict(changes)
    up["status"] = given.pop("initialized", "True")
    found = pod(
        initContainerStatuses=[pulled, server | given], conditions=[{"type": "Initialized", **up}]
    )
    assert expected == pod_state(found).load_seconds


@cases(
    "scheduled ready changes expected",
    {
        "pull": ("03:03:00", "03:04:12", {}, ("Pull", 65.0)),
        "load": ("03:04:04", "03:04:12", {}, ("Load", 5.0)),
        "warm-up": ("03:04:04", "03:05:00", {}, ("WarmUp", 50.0)),
        "not-ready": ("03:04:04", "", {}, None),
        "repaired": ("03:04:04", "03:05:00", {"restartCount": 1}, None),
    },
)
def test_the_slowest_phase_of_a_start_is_found(
    scheduled: str, ready: str, changes: dict[str, Any], expected: tuple[str, float] | None
) -> None:
    """From its node to the container, to the server being up, to a real answer."""

    def since(kind: str, time: str) -> dict[str, Any]:
        at = {"lastTransitionTime": f"2026-01-02T{time or '03:04:00'}Z"}
        return {"type": kind, "status": "True" if time else "False", **at}

    found = pod(
        initContainerStatuses=[container("server", running={"startedAt": MADE})],
        containerStatuses=[container("gateway", running={"startedAt": MADE}) | changes],
        conditions=[
            since("PodScheduled", scheduled),
            since("Initialized", "03:04:10"),
            since("Ready", ready),
        ],
    )
    assert pod_state(found).slowest_phase == expected


def test_an_eviction_is_reported() -> None:
    found = pod(phase="Failed", reason="Evicted", conditions=[holds("DisruptionTarget")])
    end = pod_end(found)

    assert end is not None
    assert (end.exit_code, end.pod_reason, end.disrupted) == (None, "Evicted", True)
    assert needs_log(found) == ""


def test_a_message_needs_no_log() -> None:
    ended = container(terminated={"exitCode": 3, "message": "{}"})

    assert needs_log(pod(ended, phase="Failed")) == ""


def test_running_pods_have_not_ended() -> None:
    assert pod_end(pod(container(running={}), phase="Running")) is None


@cases(
    "found expected",
    {
        "unschedulable": (
            pod(
                phase="Pending",
                conditions=[
                    {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: no GPU"}
                ],
            ),
            "0/1 nodes: no GPU",
        ),
        "image": (
            pod(container(waiting={"reason": "ErrImagePull", "message": "no such image"})),
            "ErrImagePull: no such image",
        ),
        "starting": (pod(container(waiting={"reason": "ContainerCreating"})), ""),
        "running": (pod(container(running={})), ""),
        "no-status-yet": ({"metadata": {}}, ""),
    },
)
def test_why_a_pod_does_not_run(found: dict[str, Any], expected: str) -> None:
    """The scheduler's or the kubelet's sentence is passed on; ordinary starting says nothing."""
    assert why_not_running(found) == expected


def test_a_failed_job_reports_why() -> None:
    early = container(terminated={"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"})
    late = container(terminated={"exitCode": 2, "finishedAt": "2026-01-01T00:01:00Z"})
    failed = holds("Failed", reason="BackoffLimitExceeded", message="too often")
    pods = [pod(late, uid="b", phase="Failed"), pod(early, uid="a", phase="Failed")]
    state = job_state(job(failed, failed=2), pods, log_tails={"b": ("words",)})

    assert (state.reason, state.message, state.failed_pods) == (
        "BackoffLimitExceeded",
        "too often",
        2,
    )
    assert [end.exit_code for end in state.ends] == [1, 2]
    assert state.ends[1].log_tail == ("words",)


def test_a_blocked_job_says_so_only_without_pods() -> None:
    """A quota's message counts while there is no pod."""
    assert job_state(job(), [], log_tails={}, blocked="exceeded quota").waiting == "exceeded quota"
    assert job_state(job(), [pod(phase="Pending")], log_tails={}, blocked="old").waiting == ""


def test_a_crashing_server_is_reported_before_a_waiting_gateway() -> None:
    """Of several waiting containers the one in CrashLoopBackOff is named, with its last end."""
    server = container("server", waiting={"reason": "CrashLoopBackOff"})
    server |= {
        "restartCount": 4,
        "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no manifest"}},
    }
    gateway = container("gateway", waiting={"reason": "PodInitializing"})
    found = pod(gateway, server, phase="Running")
    found["metadata"]["annotations"] = {labels.SERVING_HASH: "abc"}
    state = pod_state(found)

    assert (state.container, state.waiting, state.restarts) == ("server", "CrashLoopBackOff", 4)
    assert state.last_end == "Error with exit code 3: no manifest"
    assert (state.serving_hash, state.ready) == ("abc", False)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param({"running": {"startedAt": MADE}}, "down", "Error with exit code 5: down"),
        pytest.param({"terminated": "down"}, "denied", "Error with exit code 5: down"),
        pytest.param({"terminated": ""}, "down", ""),
    ],
    ids=["tries-again", "rests-after-its-end", "succeeded-at-last"],
)
def test_a_failing_init_container_is_reported_while_the_others_wait(
    now: dict[str, Any], before: str, expected: str
) -> None:
    """The kubelet shows the end for most of a back-off; servers that wait for it do not hide it."""

    def end(message: str) -> dict[str, Any]:
        return {"exitCode": 5 if message else 0, "reason": "Error", "message": message}

    state = {"terminated": end(now["terminated"])} if "terminated" in now else now
    pull = container("pull") | {"state": state, "restartCount": 2}
    pull["lastState"] = {"terminated": end(before)}
    server = container("server", waiting={"reason": "PodInitializing"})
    found = pod_state(pod(server, initContainerStatuses=[pull], phase="Pending"))

    assert found.last_end == expected
    assert found.container == ("pull" if expected else "server")


@cases(
    "now expected",
    {
        "waits": ({"waiting": {"reason": "CrashLoopBackOff"}}, "a is damaged"),
        "tries-again": ({"running": {"startedAt": "2026-01-02T03:04:05Z"}}, None),
        "pulled-at-last": ({"terminated": {"exitCode": 0}}, None),
    },
)
def test_a_damaged_engine_is_reported_while_it_cannot_be_loaded(
    now: dict[str, Any], expected: str | None
) -> None:
    end = {"exitCode": 6, "message": "a is damaged", "finishedAt": "2026-01-02T03:04:05Z"}
    server = container("server", waiting={}) | {"state": now, "lastState": {"terminated": end}}
    found = pod_state(pod(server, phase="Running"))

    assert (found.damage.message if found.damage else None) == expected


@cases(
    "now code expected",
    {
        "too-full": ({"waiting": {}}, 7, GpuFault(usable=True, message="5 bytes")),
        "lost": ({"waiting": {}}, 8, GpuFault(usable=False, message="5 bytes")),
        "tries-again": ({"running": {"startedAt": MADE}}, 8, None),
        "another-end": ({"waiting": {}}, 1, None),
    },
)
def test_what_a_gpu_lacked_is_known_while_the_server_waits(
    now: dict[str, Any], code: int, expected: GpuFault | None
) -> None:
    """Exit codes 7 and 8, with the sentence of the termination message."""
    end = {"exitCode": code, "message": "5\nbytes", "finishedAt": MADE}
    server = container("server") | {"state": now, "lastState": {"terminated": end}}

    assert pod_state(pod(server, phase="Running")).gpu == expected


def test_a_deployment_reports_its_troubles() -> None:
    conditions = [
        holds("ReplicaFailure", message='pods "llava-7d9f8-x2x9k" is forbidden: exceeded quota'),
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
        | {"message": 'ReplicaSet "llava-7d9f8" timed out'},
    ]
    state = deployment_state(
        {
            "metadata": {"name": "llava", "uid": "d", "generation": 3},
            "spec": {
                "replicas": 2,
                "template": {"metadata": {"annotations": {labels.SERVING_HASH: "abc"}}},
            },
            "status": {"observedGeneration": 2, "readyReplicas": 1, "conditions": conditions},
        }
    )

    refusal = "pods is forbidden: exceeded quota"
    assert (state.replica_failure, state.stalled) == (refusal, "ReplicaSet timed out")
    assert state.refused_template == "7d9f8"
    assert (state.wanted, state.ready, state.updated, state.serving_hash) == (2, 1, 0, "abc")


def test_texts_of_a_status_have_a_bound() -> None:
    """Who may patch the status of pods may write a megabyte into each of its texts."""
    long = "x" * (1 << 20)
    ended = {"exitCode": 42, "reason": long, "message": long, "finishedAt": MADE}
    failed = pod(container(terminated=ended), phase="Failed", message=long, reason=long)
    stuck = pod(container(waiting={"reason": long, "message": long}), phase="Pending")
    end, waits = pod_end(failed), pod_state(stuck)
    assert end is not None

    assert len(end.message) == 4096  # the kubelet's own bound: nothing of ours is cut
    assert max(map(len, (end.reason, end.pod_reason, end.pod_message))) <= 4096
    assert max(map(len, (waits.waiting, waits.waiting_message, waits.last_end))) <= 4096
    assert len(why_not_running(stuck)) <= 2 * 4096


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_each_try_of_a_pull_says_the_same(reason: str) -> None:
    """Ports differ with each try, and two reasons take turns: neither is a change."""
    tries = [
        pod_state(
            pod(
                container("server", waiting={"reason": "PodInitializing"}),
                container("gateway", waiting={"reason": reason, "message": said}),
            )
            | {"metadata": {"labels": {"pod-template-hash": "7d9f8"}}}
        )
        for said in (f"read udp 10.0.0.2:{port}->10.96.0.10:53: i/o timeout" for port in (1, 2))
    ]
    assert tries[0] == tries[1]
    assert (tries[0].container, tries[0].template) == ("gateway", "7d9f8")
    assert tries[0].waiting_message == "read udp: i/o timeout"


def test_each_try_of_a_write_says_the_same() -> None:
    """A webhook that is away is another connection each time, and the same trouble."""
    said = "failed calling webhook: read tcp 10.0.0.5:{}->10.96.0.9:443: connection reset by peer"
    tries = [
        stage_error("apply", ClusterError(500, "Job", "llava-inspect", said.format(port)))
        for port in (43210, 51234)
    ]
    assert tries[0] == tries[1]
    assert "read tcp: connection reset by peer (Job " in tries[0].message
