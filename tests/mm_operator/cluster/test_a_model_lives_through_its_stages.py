"""A model on a real API server, from apply to Ready and away again; no node, no kubelet."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_api.documents.build_result import BuildReason
from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.owners import DELAY_SECONDS
from support.absent_kubelet import (
    build_failed,
    built,
    end_pod,
    get,
    inspected,
    make_ready,
    serving,
    wait_for_pod,
)
from support.child_kinds import CHILD_KINDS
from support.clusters import namespace
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator
from support.representatives import others_are_slow

pytestmark = pytest.mark.cluster


POLL_SECONDS = 0.2


@pytest.fixture(scope="module")
def ready(
    defined: ClusterInfo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, OperatorProcess]]:
    """A Ready model `llava` and its operator; what a test changes there is repaired by its end."""
    folder = tmp_path_factory.mktemp("ready")
    with (
        namespace(defined, f"models-{uuid4().hex[:8]}") as name,
        running_operator(defined, folder, name) as operator,
    ):
        api = Api(defined, name)
        api.apply(document(name="llava"))
        make_ready(api, "llava")
        yield api, operator


def children(api: Api) -> set[str]:
    found = api.read(CHILD_KINDS, "-l", "app.kubernetes.io/managed-by=multimodal-operator")
    return {f"{one['kind']}/{one['metadata']['name']}" for one in found["items"]}


def versions(api: Api) -> dict[str, str]:
    items = api.read(f"mmm,{CHILD_KINDS}")["items"]
    return {
        f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for one in items
    }


def quiet(operator: OperatorProcess, seconds: float = 1.0) -> int:
    """Wait until an operator wrote nothing for so long; return the number of its writes."""
    seen = [operator.writes()]
    kept = int(seconds / POLL_SECONDS)

    def unchanged() -> bool:
        seen.append(operator.writes())
        return len(seen) > kept and len(set(seen[-kept:])) == 1

    eventually(unchanged, pause_seconds=POLL_SECONDS)
    return seen[-1]


def have_owners(api: Api, shared: str, names: Sequence[str]) -> None:
    """Wait until models own `kind/name`; owners of what is shared are written after a delay."""

    def owners() -> list[str]:
        metadata = get(api, *shared.split("/"))["metadata"]
        return sorted(owner["name"] for owner in metadata["ownerReferences"])

    eventually(lambda: owners() == names, showing=owners)


def at_rest(api: Api, operator: OperatorProcess) -> tuple[int, dict[str, str]]:
    """Wait until no one wrote anything for longer than owners are deferred, controllers included.

    Returns:
        The number of the operator's writes, and the versions of all objects.
    """
    before: dict[str, str] = {}
    while (now := versions(api)) != before:
        before = now
        writes = quiet(operator, seconds=DELAY_SECONDS + 0.5)
    return writes, before


@pytest.mark.slow
def test_restart_writes_nothing(api: Api, tmp_path: Path) -> None:
    with running_operator(api.cluster, tmp_path, api.namespace) as first:
        api.apply(document(name="llava"))
        make_ready(api, "llava")
        _, before = at_rest(api, first)
        assert first.stop() == 0
    with running_operator(api.cluster, tmp_path, api.namespace) as second:
        eventually(second.leads)

        assert (quiet(second, seconds=3.0), versions(api)) == (0, before)


@pytest.mark.parametrize(
    ("child", "patch", "path"),
    [
        pytest.param(
            "deployment/llava", {"spec": {"replicas": 5}}, ("spec", "replicas"), id="replicas"
        ),
        pytest.param(
            "service/llava",
            {"metadata": {"labels": {"app.kubernetes.io/name": "mine"}}},
            ("metadata", "labels", "app.kubernetes.io/name"),
            id="label",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "service/llava",
            {"spec": {"selector": {"app.kubernetes.io/component": "other"}}},
            ("spec", "selector", "app.kubernetes.io/component"),
            id="selector",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_edited_children_are_repaired(
    ready: tuple[Api, OperatorProcess], child: str, patch: dict[str, Any], path: tuple[str, ...]
) -> None:
    api, operator = ready

    def value() -> Any:
        found: Any = get(api, *child.split("/"))
        for part in path:
            found = found[part]
        return found

    quiet(operator)
    expected = value()
    mine = {"metadata": {"annotations": {"example.com/mine": "stays"}}}

    api.kubectl("patch", child, "--type=merge", "-p", json.dumps(mine))
    api.kubectl("patch", child, "--type=merge", "-p", json.dumps(patch))

    eventually(lambda: value() == expected, showing=value)
    assert get(api, *child.split("/"))["metadata"]["annotations"]["example.com/mine"] == "stays"


@pytest.mark.slow
def test_a_restart_of_the_rollout_is_left_to_kubectl(ready: tuple[Api, OperatorProcess]) -> None:
    """`kubectl rollout restart` annotates the pods' template; that stays, and pods are replaced."""
    api, operator = ready
    quiet(operator)
    before = get(api, "deployment", "llava")

    api.kubectl("rollout", "restart", "deployment/llava")
    quiet(operator, seconds=3.0)

    after = get(api, "deployment", "llava")
    annotations = after["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


@pytest.mark.parametrize(
    "child",
    others_are_slow(
        ["deployment/llava", "service/llava", "configmap/llava-facts"],
        "deployment/llava",
        "configmap/llava-facts",
    ),
)
def test_deleted_children_come_back(ready: tuple[Api, OperatorProcess], child: str) -> None:
    api, operator = ready
    quiet(operator)
    before = children(api)

    api.kubectl("delete", child, "--wait=false")

    if child.startswith("configmap"):  # the facts are gone: only a new inspection knows them
        inspected(api, "llava")
    eventually(lambda: children(api) >= before, showing=lambda: before - children(api))


def test_two_models_build_once(api: Api, tmp_path: Path) -> None:
    with running_operator(api.cluster, tmp_path, api.namespace) as operator:
        for name in ("one", "two"):
            api.apply(document(name=name))
        for name in ("one", "two"):
            inspected(api, name)
        built(api)
        for name in ("one", "two"):
            serving(api, name)
            api.reaches(name, "EngineBuilt", "BuildSucceeded")
        engines = [name for name in children(api) if name.startswith("ConfigMap/engine-")]
        assert len(engines) == 1
        for shared in (engines[0], "PersistentVolumeClaim/multimodal-store"):
            have_owners(api, shared, ["one", "two"])
        quiet(operator)
        jobs = api.read("jobs")["items"]

        assert len([one for one in jobs if one["metadata"]["name"].startswith("engine-")]) <= 1
        reported = [get(api, "mmm", name)["status"]["build"] for name in ("one", "two")]
        reused = [build.get("reusedFrom") for build in reported]
        others = ([f"{api.namespace}/one"], [f"{api.namespace}/two"])
        assert list(filter(None, reused)) in others
        assert [build["phase"] for build in reported] == ["Succeeded", "Succeeded"]

        api.kubectl("delete", "mmm", "one")
        quiet(operator)
        assert engines[0] in children(api)
        assert "PersistentVolumeClaim/multimodal-store" in children(api)
        api.kubectl("delete", "mmm", "two")
        eventually(lambda: not children(api), showing=lambda: children(api))


def test_failed_build_is_reported(watched: Api) -> None:
    watched.apply(document(name="llava"))
    inspected(watched, "llava")

    build_failed(
        watched, exit_code=3, reason=BuildReason.VERIFICATION_FAILED, message="differs by 0.5"
    )

    message = watched.reaches("llava", "EngineBuilt", "VerificationFailed")["message"]
    assert all(word in message for word in ("export", "3", "differs by 0.5", "last line"))


NO_PROGRAM = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    'create failed: unable to start container process: exec: "mm-runtime": executable file not '
    "found in $PATH: unknown"
)


def test_an_image_without_the_program_is_reported_at_once(watched: Api) -> None:
    """The first pod of a stock image ends the Job, and the condition says what the image lacks."""
    selector = f"{labels.MODEL}=llava,{labels.APP_COMPONENT}={labels.Component.INSPECT}"
    watched.apply(document(name="llava"))
    pod = wait_for_pod(watched, selector)

    end_pod(watched, pod, message=NO_PROGRAM, exit_code=128, reason="StartError")

    found = watched.reaches("llava", "Planned", "ImageNotUsable", "has no program mm-runtime")
    assert "spec.build.image" in found["message"]

    def ended() -> tuple[int, set[str]]:
        [job] = watched.read("jobs", "-l", selector)["items"]
        status = job.get("status", {})
        return status.get("failed", 0), {one["reason"] for one in status.get("conditions", ())}

    # The condition comes of the pod; the Job's controller may see it later.
    eventually(lambda: ended() == (1, {"PodFailurePolicy"}), showing=ended)


def test_a_build_whose_image_lacks_something_is_reported(watched: Api) -> None:
    watched.apply(document(name="llava"))
    inspected(watched, "llava")

    build_failed(
        watched, exit_code=3, reason=BuildReason.IMAGE_NOT_USABLE, message="torch: (none) (build)"
    )

    watched.reaches("llava", "EngineBuilt", "ImageNotUsable", "torch: (none)")


def test_quota_is_reported_and_lifted(watched: Api) -> None:
    watched.kubectl("create", "quota", "none", "--hard=pods=0")
    watched.apply(document(name="llava"))

    watched.reaches("llava", "Planned", "False", "exceeded quota")
    degraded = watched.reaches("llava", "Degraded", "QuotaExceeded", "exceeded quota")
    assert degraded["status"] == "True"

    watched.kubectl("delete", "quota", "none")
    inspected(watched, "llava")
    watched.reaches("llava", "Planned", "PlanComplete")


@pytest.mark.slow
def test_a_quota_on_limits_is_reported_and_kept(watched: Api) -> None:
    """A spec without limits of cpu is refused in the quota's words; one with them is served."""
    quota = ["create", "quota", "cpu", "--hard=limits.cpu=20,limits.memory=64Gi"]
    limits = {"resources": {"limits": {"cpu": 2, "memory": "4Gi"}}}
    watched.kubectl(*quota)
    watched.apply(document(name="llava"))
    watched.reaches("llava", "Planned", "False", "must specify limits.cpu")
    watched.reaches("llava", "Degraded", "QuotaExceeded")

    spec = {"build": limits, "runtime": limits, "gateway": limits}
    watched.apply(document(spec, name="llava"))
    make_ready(watched, "llava")


def test_a_model_without_replicas_is_waited_for(watched: Api) -> None:
    """`kubectl wait` for Ready ends where none is wanted; the columns of kubectl stay narrow."""
    watched.apply(document({"replicas": 0}, name="llava"))
    inspected(watched, "llava")
    built(watched)
    said = watched.kubectl("wait", "--for=condition=Ready", "mmm/llava", "--timeout=60s")
    assert "condition met" in said
    wide = watched.kubectl("get", "mmm", "-o", "wide").splitlines()
    assert max(len(line.rstrip()) for line in wide) <= 160, wide


def test_events_report_the_way_to_ready(watched: Api) -> None:
    def reported() -> str:
        return watched.kubectl("describe", "mmm", "llava").split("Events:")[1]

    watched.apply(document(name="llava"))
    make_ready(watched, "llava")
    # In the background, after the status that reports the same.
    eventually(lambda: "RolloutComplete" in reported(), showing=reported)
    events = reported()

    # "InspectPending" when the scheduler was first to say that there is no node.
    assert events.index("Inspect") < events.index("PlanComplete")
    assert events.index("PlanComplete") < events.index("BuildSucceeded")
    assert events.index("BuildSucceeded") < events.index("RolloutComplete")


def test_apply_to_ready_to_gone(api: Api, tmp_path: Path) -> None:
    with running_operator(api.cluster, tmp_path, api.namespace) as operator:
        api.apply(document({"runtime": {"triton": {"expose": True}}}, name="llava"))
        make_ready(api, "llava")
        model = get(api, "mmm", "llava")
        rest = at_rest(api, operator)

        assert model["status"]["url"] == f"http://llava.{api.namespace}.svc/v1"
        assert {"Deployment/llava", "Service/llava"} <= children(api)
        assert "PersistentVolumeClaim/multimodal-store" in children(api)
        assert "NetworkPolicy/llava-triton" in children(api)
        assert operator.get("/readyz") == "ok"
        assert (quiet(operator, seconds=3.0), versions(api)) == rest

        api.kubectl("delete", "mmm", "llava")

        # The garbage collector looks for new kinds, this one included, every 30 s: after the tests
        # above it knows them.
        eventually(lambda: not children(api), seconds=90, showing=lambda: children(api))
        assert "finalizers" not in model["metadata"]
