"""What the planner reads of pods, Jobs and Deployments: from their status to records."""

from dataclasses import fields
from typing import Any

from mm_api import labels
from mm_operator.cluster.deployments import deployment_state
from mm_operator.cluster.observe import job_state
from mm_operator.cluster.pods import needs_log, pod_end, pod_state, why_not_running
from mm_operator.cluster.refusals import stage_error
from mm_operator.errors import ClusterError
from mm_operator.model import PodEnd, PodState
from support.golden import Golden

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


def at(second: int) -> dict[str, str]:
    return {"lastTransitionTime": f"2026-01-02T03:04:{second:02}Z"}


def condition(kind: str, status: str, second: int) -> dict[str, Any]:
    return {"type": kind, "status": status, **at(second)}


RUNS = {"state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
STARTING, STARTED = ({**RUNS, "started": started} for started in (False, True))


def encoder_pod(
    encoder: dict[str, Any], pull: dict[str, Any], ready: str = "False", second: int = 1
) -> dict[str, Any]:
    found = pod(
        container("encoder") | encoder,
        initContainerStatuses=[container("pull") | pull],
        conditions=[condition("Ready", ready, second)],
    )
    found["metadata"]["labels"] = {labels.APP_COMPONENT: labels.Component.ENCODER}
    return found


def server_pod(
    server: dict[str, Any], ready: tuple[str, int], initialized: tuple[str, int] = ("True", 9)
) -> dict[str, Any]:
    return pod(
        initContainerStatuses=[{"name": "server", "restartCount": 0} | server],
        conditions=[condition("Ready", *ready), condition("Initialized", *initialized)],
    )


def failing_pull(state: dict[str, Any], before: str) -> dict[str, Any]:
    end = {"exitCode": 5, "reason": "Error", "message": before}
    pull = container("pull") | {"state": state, "restartCount": 2, "lastState": {"terminated": end}}
    server = container("server", waiting={"reason": "PodInitializing"})
    return pod(server, initContainerStatuses=[pull], phase="Pending")


def ended_server(code: int, **state: Any) -> dict[str, Any]:
    end = {"exitCode": code, "message": "5\nbytes", "finishedAt": MADE}
    return pod(container("server") | {"state": state, "lastState": {"terminated": end}})


def pulling(reason: str, port: int) -> dict[str, Any]:
    said = f"read udp 10.0.0.2:{port}->10.96.0.10:53: i/o timeout"
    found = pod(
        container("server", waiting={"reason": "PodInitializing"}),
        container("gateway", waiting={"reason": reason, "message": said}),
    )
    return found | {"metadata": {"labels": {"pod-template-hash": "7d9f8"}}}


CRASHED = container("server", waiting={"reason": "CrashLoopBackOff"}) | {
    "restartCount": 4,
    "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no manifest"}},
}
FAILED, OVER = ({"exitCode": code, "reason": "Error", "message": "down"} for code in (5, 0))
ENDED_WELL = container(terminated={"exitCode": 0, "reason": "Completed", "message": "{}"})
NO_NODE = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: no GPU"}
PODS: dict[str, dict[str, Any]] = {
    "no status yet": {"metadata": {}},
    "killed for its memory": pod(
        container(terminated={"exitCode": 137, "reason": "OOMKilled", "finishedAt": MADE}),
        phase="Failed",
    ),
    "evicted": pod(phase="Failed", reason="Evicted", conditions=[holds("DisruptionTarget")]),
    "ended with a message": pod(
        container(terminated={"exitCode": 3, "message": "{}"}), phase="Failed"
    ),
    "ended well, not taken down": pod(ENDED_WELL, phase="Running"),
    "one of two ended": pod(ENDED_WELL, container(running={}), phase="Running"),
    "runs": pod(container(running={}), phase="Running"),
    "unschedulable": pod(phase="Pending", conditions=[NO_NODE]),
    "no image": pod(container(waiting={"reason": "ErrImagePull", "message": "no such image"})),
    "pull fails": pulling("ErrImagePull", 1),
    "pull fails again": pulling("ErrImagePull", 2),
    "pull is waited for": pulling("ImagePullBackOff", 2),
    "starts": pod(container(waiting={"reason": "ContainerCreating"})),
    "encoder does not run": encoder_pod({}, {}),
    "encoder's engine is fetched": encoder_pod({}, RUNS),
    "encoder loads": encoder_pod(STARTING, {"state": {"terminated": {"exitCode": 0}}}),
    "encoder was ready": encoder_pod(STARTED, {}, second=30),
    "encoder is ready": encoder_pod(STARTED, {}, "True", 30),
    "server does not run": server_pod({}, ("False", 1)),
    "server loads": server_pod(STARTING, ("False", 1), ("False", 1)),
    "server warms up": server_pod(STARTED, ("False", 1)),
    "server is ready": server_pod(STARTED, ("True", 12)),
    "server was ready": server_pod(STARTED, ("False", 30)),
    "server crashes": pod(container("gateway", waiting={"reason": "PodInitializing"}), CRASHED),
    "init container tries again": failing_pull(RUNS["state"], "down"),
    "init container rests": failing_pull({"terminated": FAILED}, "denied"),
    "init container succeeded at last": failing_pull({"terminated": OVER}, "down"),
    "damaged engine": ended_server(6, waiting={"reason": "CrashLoopBackOff"}),
    "damaged engine, tries again": ended_server(6, running={"startedAt": MADE}),
    "damaged engine, pulled at last": ended_server(6, terminated={"exitCode": 0}),
    "GPU is too full": ended_server(7, waiting={}),
    "GPU is lost": ended_server(8, waiting={}),
    "GPU is lost, tries again": ended_server(8, running={"startedAt": MADE}),
    "another end": ended_server(1, waiting={}),
}


def differences(record: PodState | PodEnd, usual: PodState | PodEnd) -> dict[str, str]:
    named = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {name: str(value) for name, value in named if value != getattr(usual, name)}


def test_pods_become_records(golden: Golden) -> None:
    """What differs from a pod of which nothing is known, and whose log is requested."""
    found = {}
    for name, given in PODS.items():
        end = pod_end(given, ("last",))
        found[name] = differences(pod_state(given), pod_state({"metadata": {}})) | {
            **({"end": differences(end, PodEnd("", succeeded=True, exit_code=0))} if end else {}),
            **({"log": needs_log(given)} if needs_log(given) else {}),
            **({"why": why_not_running(given)} if why_not_running(given) else {}),
        }
    golden.check_yaml("pods.yaml", found)


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
    assert job_state(job(), [], log_tails={}, blocked="exceeded quota").waiting == "exceeded quota"
    assert job_state(job(), [pod(phase="Pending")], log_tails={}, blocked="old").waiting == ""


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

    assert len(end.message) == 4096  # the kubelet's own bound: nothing of ours is cut
    assert max(map(len, (end.reason, end.pod_reason, end.pod_message))) <= 4096
    assert max(map(len, (waits.waiting, waits.waiting_message, waits.last_end))) <= 4096
    assert len(why_not_running(stuck)) <= 2 * 4096


def test_each_try_of_a_write_says_the_same() -> None:
    """A webhook that is away is another connection each time, and the same trouble."""
    said = "failed calling webhook: read tcp 10.0.0.5:{}->10.96.0.9:443: connection reset by peer"
    tries = [
        stage_error("apply", ClusterError(500, "Job", "llava-inspect", said.format(port)))
        for port in (43210, 51234)
    ]
    assert tries[0] == tries[1]
    assert "read tcp: connection reset by peer (Job " in tries[0].message
