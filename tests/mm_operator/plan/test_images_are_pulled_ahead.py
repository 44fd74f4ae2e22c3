"""Images are pulled on nodes that may get a pod: which nodes, how many at a time, and when."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mm_operator import names
from mm_operator.children.all import build, unwanted
from mm_operator.cluster.image_nodes import complete_name, has_image, is_ready
from mm_operator.model import (
    ImageNeed,
    ImageNode,
    ImageNodes,
    JobPhase,
    JobState,
    Plan,
    PrePull,
    Ref,
    Snapshot,
)
from mm_operator.plan import decide
from mm_operator.plan.rollout_turns import spec_digest
from support.cases import cases
from support.model_documents import merged
from support.models import EPOCH, spec_of
from support.staged import inspected

IMAGE = "example.org/runtime:1"
ON: dict[str, Any] = {"runtime": {"image": IMAGE, "prePull": {"nodesAtOnce": 2}}}
NEED = ImageNeed(IMAGE)
WITHOUT = tuple(ImageNode(name, has=False) for name in "abc")


def job(node: str, phase: JobPhase, *, image: str = IMAGE, waiting: str = "") -> JobState:
    name = names.pull_job("llava", node, image)
    return JobState(name, f"uid-of-{name}", phase, EPOCH, waiting=waiting)


def stage(
    changes: dict[str, Any],
    found: ImageNodes | None = None,
    jobs: tuple[JobState, ...] = (),
    *,
    built: bool = True,
) -> tuple[Snapshot, Plan]:
    """Return a model whose engine is built, what its nodes said, and what is decided."""
    snapshot, _ = inspected(merged(ON, changes), built=built)
    refs = frozenset(Ref("Job", one.name) for one in jobs)
    observed = replace(snapshot.observed, jobs={one.name: one for one in jobs}, refs=refs)
    snapshot = replace(snapshot, observed=observed, image_nodes=found)
    return snapshot, decide(snapshot)


def looked(nodes: tuple[ImageNode, ...], **fields: Any) -> ImageNodes:
    snapshot, _ = stage({})
    return ImageNodes(NEED, snapshot.now, nodes, **fields)


def decided(*jobs: JobState, nodes: tuple[ImageNode, ...] = WITHOUT, **fields: Any) -> PrePull:
    return stage({}, looked(nodes, **fields), jobs)[1].pre_pull


@cases(
    "changes built",
    {"not-wanted": ({"runtime": {"prePull": None}}, True), "no-engine-yet": ({}, False)},
)
def test_nothing_is_pulled(changes: dict[str, Any], *, built: bool) -> None:
    """By default, and before there are pods to come."""
    assert stage(changes, built=built)[1].pre_pull == PrePull()


def test_nodes_are_looked_at_first() -> None:
    """Those that the pods may run on: by labels and tolerations, GPU included."""
    taint = {"operator": "Exists"}
    gpu: dict[str, Any] = {"count": 1, "product": "NVIDIA-L4"}
    placed: dict[str, Any] = {"nodeSelector": {"pool": "a"}, "tolerations": [taint], "gpu": gpu}
    look = stage({"runtime": placed, "vision": {"engine": "Torch"}})[1].pre_pull.look
    assert look is not None
    assert (look.image, len(look.tolerations)) == (IMAGE, 1)
    assert look.node_labels == {"pool": "a", "nvidia.com/gpu.product": "NVIDIA-L4"}
    claimed = {**placed, "gpu": {**gpu, "deviceClassName": "gpu.nvidia.com"}}
    look = stage({"runtime": claimed, "vision": {"engine": "Torch"}})[1].pre_pull.look
    assert look is not None
    assert look.node_labels == {"pool": "a"}


def test_what_was_found_is_believed_for_five_minutes() -> None:
    """And only of the same image."""
    found = looked(WITHOUT)
    assert stage({}, found)[1].pre_pull.due_in == 300
    old = replace(found, looked_at=found.looked_at - timedelta(minutes=5))
    assert stage({}, old)[1].pre_pull.look == NEED
    other = {"runtime": {"image": "example.org/runtime:2"}}
    assert stage(other, found)[1].pre_pull.look is not None


@cases(
    "jobs started",
    {
        "two-at-once": ((), "ab"),
        "one-beside-one": ((job("a", JobPhase.RUNNING),), "b"),
        "full": ((job("a", JobPhase.PENDING), job("b", JobPhase.RUNNING)), ""),
        "one-has-it-now": ((job("a", JobPhase.SUCCEEDED),), "bc"),
        "a-failure-is-not-repeated": ((job("a", JobPhase.FAILED),), "bc"),
        "another-image": ((job("a", JobPhase.RUNNING, image="other"),), "ab"),
    },
)
def test_few_nodes_pull_at_a_time(jobs: tuple[JobState, ...], started: str) -> None:
    """One Job a node and image, as many at work as the spec says."""
    assert "".join(decided(*jobs).start) == started


def test_nodes_with_the_image_are_left_alone() -> None:
    """One that does not list it may have it where its list is full: it is given it once."""
    nodes = (ImageNode("a", has=True), ImageNode("b", has=None))
    found = decided(nodes=nodes, more=3)
    assert list(found.start) == ["b"]
    assert found.message == (
        "the image is on 1 of 2 nodes that take the pods; 1 pull it now; of 1 it is not known, "
        "because a node lists 50 images at most; 3 more nodes are left to their first pod"
    )


def test_the_status_says_why_a_pull_waits_or_failed() -> None:
    """In the words of the pod, and for how long a node is left alone."""
    jobs = (
        job("a", JobPhase.PENDING, waiting="ErrImagePull: not found"),
        job("b", JobPhase.FAILED),
        job("c", JobPhase.SUCCEEDED),
    )
    assert decided(*jobs).message == (
        "the image is on 1 of 3 nodes that take the pods; 1 pull it now (ErrImagePull: not found); "
        "1 could not pull it, and do not try again for a day"
    )


def test_nodes_that_cannot_be_read_are_no_silence() -> None:
    """The status says which right is missing."""
    assert decided(nodes=(), problem="nodes cannot be read").message == "nodes cannot be read"


def test_jobs_go_once_their_node_has_the_image() -> None:
    """And those of another image, of a node that left, or of a model that wants none any more."""
    jobs = tuple(
        job(node, JobPhase.SUCCEEDED, image=image)
        for node, image in (("a", IMAGE), ("b", IMAGE), ("c", "other"), ("gone", IMAGE))
    )
    nodes = (ImageNode("a", has=True), ImageNode("b", has=False))
    snapshot, plan = stage({}, looked(nodes), jobs)
    staying = {job("b", JobPhase.SUCCEEDED).name}
    there = {one.name for one in jobs}
    gone = {one.name for one in unwanted(snapshot, plan, build(snapshot, plan))}
    assert there - gone == staying
    snapshot, plan = stage({"runtime": {"prePull": None}}, None, jobs)
    assert {one.name for one in unwanted(snapshot, plan, build(snapshot, plan))} == there


def test_a_job_is_as_the_pods_are() -> None:
    """Placed, named and allowed as they; small, on its node alone, and preempting nothing."""
    runtime = {
        "serviceAccountName": "serving",
        "imagePullSecrets": ["registry"],
        "runtimeClassName": "nvidia",
        "priorityClassName": "high",
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
                    ]
                }
            },
            "podAntiAffinity": {},
        },
    }
    need = decide(replace(stage({"runtime": runtime})[0], image_nodes=None)).pre_pull.look
    assert need is not None
    found = replace(looked(WITHOUT[:1]), need=need)
    objects = build(*stage({"runtime": runtime}, found))
    [made] = [one for one in objects if "-pull-" in one["metadata"]["name"]]
    job_spec, pod = made["spec"], made["spec"]["template"]["spec"]
    assert (job_spec["backoffLimit"], job_spec["ttlSecondsAfterFinished"]) == (0, 86_400)
    assert job_spec["activeDeadlineSeconds"] == 3600
    assert pod["affinity"] == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "zone", "operator": "Exists"}],
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["a"]}
                        ],
                    }
                ]
            }
        }
    }
    assert (pod["serviceAccountName"], pod["runtimeClassName"]) == ("serving", "nvidia")
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert (pod["nodeSelector"], len(pod["tolerations"])) == ({"pool": "a"}, 1)
    assert "priorityClassName" not in pod
    assert pod["containers"][0]["image"] == IMAGE
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "128Mi"}


def test_pods_stay_when_it_is_switched_on() -> None:
    """It changes nothing in them, so nothing is rolled out."""
    _, without = stage({"runtime": {"prePull": None}})
    _, having = stage({}, looked(()))
    assert without.rollout.serving_hash == having.rollout.serving_hash
    digests = {
        spec_digest(spec_of(merged(ON, {"runtime": {"prePull": one}})))
        for one in (None, {"nodesAtOnce": 3})
    }
    assert len(digests) == 1


@cases(
    "listed image expected",
    {
        "listed": (["example.org/a:1"], "example.org/a:1", True),
        "another-tag": (["example.org/a:1"], "example.org/a:2", False),
        "short": (["docker.io/library/a:latest"], "a", True),
        "without-a-registry": (["docker.io/b/a:1"], "b/a:1", True),
        "a-port-is-no-tag": (["localhost:5000/a:1"], "localhost:5000/a:1", True),
        "digest": (["example.org/a@sha256:0"], "example.org/a:1@sha256:0", True),
        "full": ([f"example.org/{n}:1" for n in range(50)], "example.org/a:1", None),
        "empty": ([], "example.org/a:1", False),
    },
)
def test_images_are_found_in_lists(listed: list[str], image: str, *, expected: bool | None) -> None:
    """A list of 50 is cut off, so that what it lacks may be there."""
    node = {"status": {"images": [{"names": [name]} for name in listed]}}
    assert has_image(node, image) is expected


def test_a_node_without_a_word_is_not_ready() -> None:
    """As one whose kubelet is away."""
    assert not is_ready({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    assert not is_ready({})
    assert complete_name("a:1") == "docker.io/library/a:1"
