"""Entire lives of a model, decision by decision; the log is the golden file."""

import pytest

from mm_api.documents.build_result import BuildFailure, BuildReason
from mm_api.documents.model_facts import InspectError, InspectReason
from mm_operator.model import PodEnd, PodStart, PodState, Ref
from mm_operator.plan.records import RESULT_KEY
from support.cases import cases
from support.golden import Golden
from support.imagined_cluster import ImaginedCluster
from support.models import DIGEST, tiny_facts

CHANGED = DIGEST.replace("0", "f")
SOURCE_CHANGED = BuildFailure(
    reason=BuildReason.SOURCE_CHANGED,
    step="fetch",
    exit_code=4,
    message="model.safetensors is not the file that was inspected",
    retryable=False,
)


@pytest.fixture
def cluster() -> ImaginedCluster:
    return ImaginedCluster()


def ready_model(cluster: ImaginedCluster, name: str = "llava") -> None:
    cluster.apply(name)
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.pods_ready(name)


def log_of(cluster: ImaginedCluster) -> str:
    return "\n".join(cluster.log) + "\n"


def test_a_model_walks_from_apply_to_ready(cluster: ImaginedCluster, golden: Golden) -> None:
    cluster.apply("llava")
    cluster.start("inspect")
    cluster.inspected(tiny_facts())
    cluster.start("engine-")
    cluster.built()
    cluster.pods_ready("llava")
    cluster.delete("llava")
    golden.check("apply-to-ready.txt", log_of(cluster))


def test_refused_source_is_inspected_again(cluster: ImaginedCluster, golden: Golden) -> None:
    """A wrong path is shown with its reason, retried with growing delays, and heals by itself."""
    cluster.apply("llava")
    cluster.block("inspect", 'persistentvolumeclaim "checkpoints" not found')
    cluster.start("inspect")
    error = InspectError(reason=InspectReason.SOURCE_NOT_FOUND, message="no directory models/llava")
    cluster.refused(error)
    cluster.wait(29)
    cluster.wait(1)
    cluster.refused(error)
    cluster.wait(60)
    cluster.inspected(tiny_facts())
    golden.check("refused-source.txt", log_of(cluster))


def test_source_that_changes_is_inspected_again(cluster: ImaginedCluster, golden: Golden) -> None:
    """Exit code 4 leads to a new inspection and the engine of the new source."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.wait(5)
    cluster.broke(SOURCE_CHANGED)
    cluster.wait(5)
    cluster.inspected(tiny_facts(source_digest=CHANGED))
    cluster.built()
    golden.check("changed-source.txt", log_of(cluster))


def test_source_that_changes_back_is_built(cluster: ImaginedCluster) -> None:
    """A new inspection that finds the old source again starts the next attempt, not a loop."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.wait(5)
    cluster.broke(SOURCE_CHANGED)
    cluster.wait(120)
    cluster.inspected(tiny_facts())
    assert [name[-2:] for name in cluster.names("Job")] == ["-2"]


def test_killed_builds_are_tried_again(cluster: ImaginedCluster, golden: Golden) -> None:
    """Out of memory, evicted, timed out: retried later, and the message says how it was."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.start("engine-")
    tail = ("export: tower of 4 layers", "export: Killed")
    cluster.end(
        "engine-", PodEnd("pod", succeeded=False, exit_code=137, reason="OOMKilled", log_tail=tail)
    )
    cluster.wait(60)
    cluster.end(
        "engine-",
        PodEnd("pod", succeeded=False, exit_code=137, reason="Error", pod_reason="Evicted"),
    )
    cluster.wait(120)
    cluster.end(
        "engine-", PodEnd("pod", succeeded=False, exit_code=None, pod_reason="DeadlineExceeded")
    )
    cluster.wait(240)
    cluster.built()
    golden.check("killed-builds.txt", log_of(cluster))


def test_permanent_failure_waits_for_a_person(cluster: ImaginedCluster, golden: Golden) -> None:
    """A build that cannot succeed is not repeated before the spec changes or its Job is gone."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.broke(
        BuildFailure(
            reason=BuildReason.VERIFICATION_FAILED,
            step="verify",
            exit_code=3,
            message="export and torch differ by 0.2, allowed is 0.0001",
            log_tail=["sample 1: 0.2"],
            retryable=False,
        )
    )
    cluster.wait(86_399)
    cluster.apply("llava", {"engine": {"maxBatchSize": 4}})
    cluster.built()
    golden.check("permanent-failure.txt", log_of(cluster))


def test_an_ended_job_goes_in_its_time(cluster: ImaginedCluster) -> None:
    """The Job of a built engine stays for its log; nothing is decided by it, also when it goes."""
    cluster.apply("llava", {"build": {"ttlAfterFinished": "1h"}})
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.pods_ready("llava")
    before, reported = cluster.names("Job"), cluster.models["llava"].status
    cluster.wait(3600)

    assert [name[:7] for name in before] == ["engine-"]
    assert cluster.names("Job") == []
    assert reported == cluster.models["llava"].status


def test_a_deleted_record_of_an_engine_is_built_again(cluster: ImaginedCluster) -> None:
    """The Job of the former record is no answer, although the garbage collector may come late."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.built()
    (record,) = [name for name in cluster.names("ConfigMap") if name.startswith("engine-")]
    cluster.objects[Ref("ConfigMap", record)]["metadata"]["uid"] = "of-the-new-record"
    del cluster.objects[Ref("ConfigMap", record)]["data"][RESULT_KEY]
    cluster.settle()

    assert cluster.names("Job") == [f"{record}-2"]


def test_change_during_a_build_ends_the_build(cluster: ImaginedCluster, golden: Golden) -> None:
    """The Job of a fingerprint no one wants any more goes; the new one starts at once."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.start("engine-")
    cluster.apply("llava", {"engine": {"maxBatchSize": 4}})
    cluster.built()
    cluster.pods_ready("llava")
    golden.check("change-during-build.txt", log_of(cluster))


def test_old_engine_serves_while_the_new_one_is_built(
    cluster: ImaginedCluster, golden: Golden
) -> None:
    """A ready model stays Ready through a rebuild, can be scaled in it, and lets the old one go."""
    ready_model(cluster)
    cluster.apply("llava", {"engine": {"maxBatchSize": 4}, "runtime": {"podLabels": {"a": "b"}}})
    cluster.start("engine-")
    cluster.apply(
        "llava",
        {"engine": {"maxBatchSize": 4}, "runtime": {"podLabels": {"a": "b"}}, "replicas": 2},
    )
    cluster.pods_ready("llava")
    cluster.built()
    cluster.pods_ready("llava")
    golden.check("rebuild.txt", log_of(cluster))


def test_two_models_share_one_build(cluster: ImaginedCluster, golden: Golden) -> None:
    cluster.apply("alpha")
    cluster.inspected(tiny_facts())
    cluster.start("engine-")
    cluster.apply("beta")
    cluster.inspected(tiny_facts())
    cluster.delete("alpha")
    cluster.built()
    cluster.pods_ready("beta")
    cluster.delete("beta")
    golden.check("shared-build.txt", log_of(cluster))


def test_leaving_a_shared_engine_leaves_it_to_the_others(
    cluster: ImaginedCluster, golden: Golden
) -> None:
    """A model that wants another engine leaves the owners of the shared one; its build runs on."""
    cluster.apply("alpha")
    cluster.inspected(tiny_facts())
    cluster.apply("beta")
    cluster.inspected(tiny_facts())
    shared = cluster.fingerprint("engine-")
    cluster.apply("alpha", {"engine": {"maxBatchSize": 4}})
    cluster.built(f"engine-{shared[:16]}")
    golden.check("leaving-a-shared-engine.txt", log_of(cluster))


def test_repair_brings_back_what_was_deleted(cluster: ImaginedCluster, golden: Golden) -> None:
    """Children that someone deletes come back, and a lost build result means a new build."""
    ready_model(cluster)
    for name in cluster.names("ConfigMap"):
        if "engine" not in name:
            cluster.remove(Ref("ConfigMap", name))
    cluster.remove(Ref("Service", "llava"))
    golden.check("repair.txt", log_of(cluster))


@cases("damage", {"deleted": None, "emptied": {}, "overwritten": {"pod.json": "[1]"}})
def test_a_held_rollout_needs_no_record(
    cluster: ImaginedCluster, damage: dict[str, str] | None
) -> None:
    """When the revision's record is lost during a rebuild, its pods and its old engine stay."""
    ready_model(cluster)
    before = cluster.objects[Ref("Deployment", "llava")]
    cluster.apply("llava", {"engine": {"maxBatchSize": 4}, "replicas": 2})
    (record,) = [name for name in cluster.names("ConfigMap") if "serving" in name]
    config = cluster.objects.pop(Ref("ConfigMap", record))
    if damage is not None:
        cluster.objects[Ref("ConfigMap", record)] = {**config, "data": damage}
    cluster.apply("llava", {"engine": {"maxBatchSize": 4}, "replicas": 3})
    engines = [name for name in cluster.names("ConfigMap") if name.startswith("engine-")]
    assert (cluster.objects[Ref("Deployment", "llava")]["spec"]["replicas"], len(engines)) == (3, 2)
    assert (
        before["spec"]["template"]
        == (cluster.objects[Ref("Deployment", "llava")]["spec"]["template"])
    )


def test_crashing_pods_are_reported(cluster: ImaginedCluster, golden: Golden) -> None:
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.trouble(
        "llava",
        PodState(
            serving_hash="",
            phase="Running",
            ready=False,
            container="server",
            waiting="CrashLoopBackOff",
            waiting_message="back-off 10s restarting failed container",
            last_end="Error with exit code 3: manifest.json does not exist",
        ),
    )
    golden.check("crashing-pods.txt", log_of(cluster))


def test_a_warm_up_that_always_fails_is_a_failure(cluster: ImaginedCluster) -> None:
    """Ready and Degraded have the reason and its words, an Event warns, and passing ends it."""
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.built()
    words = "the question that shows that it answers failed: 'strftime_now' is undefined"
    start = PodStart("WarmingUp", None, problem=words)
    cluster.trouble("llava", PodState("", "Running", ready=False, start=start))

    conditions = {kind: cluster.conditions("llava")[kind] for kind in ("Ready", "Degraded")}
    assert conditions == {"Ready": "False WarmupFailed", "Degraded": "True WarmupFailed"}
    assert {words in cluster.message("llava", kind) for kind in conditions} == {True}
    assert any(line.startswith("  llava: Warning WarmupFailed") for line in cluster.log)

    cluster.pods_ready("llava")
    assert cluster.conditions("llava")["Degraded"] == "False AsExpected"


def test_quota_is_waited_for(cluster: ImaginedCluster, golden: Golden) -> None:
    cluster.apply("llava")
    cluster.block("inspect", 'pods "x" is forbidden: exceeded quota: pods, limited: pods=0')
    cluster.start("inspect")
    cluster.inspected(tiny_facts())
    golden.check("quota.txt", log_of(cluster))
