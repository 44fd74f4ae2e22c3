"""The life of encoders in pods of their own: they come, change, break and go with their model."""

from datetime import UTC, datetime

import pytest

from mm_operator.model import PodStart, PodState, Ref
from support.golden import Golden
from support.imagined_cluster import ImaginedCluster
from support.models import DIGEST, tiny_facts

DISAGGREGATED = {"vision": {"placement": "Disaggregated", "replicas": 2}}
NAME = "llava-encoders"


@pytest.fixture
def cluster() -> ImaginedCluster:
    made = ImaginedCluster()
    made.apply("llava", DISAGGREGATED)
    made.inspected(tiny_facts())
    made.built()
    made.pods_ready("llava")
    return made


def _encoders(cluster: ImaginedCluster) -> str:
    return cluster.conditions("llava").get("EncodersReady", "absent")


def test_encoders_come_and_go(cluster: ImaginedCluster, golden: Golden) -> None:
    cluster.pods_ready(NAME)
    cluster.apply("llava", {"vision": {"placement": "Disaggregated", "replicas": 3}})
    cluster.pods_ready(NAME)
    cluster.apply("llava")
    cluster.pods_ready("llava")
    cluster.delete("llava")
    golden.check("encoders-come-and-go.txt", "\n".join(cluster.log) + "\n")


def test_a_model_is_ready_without_them(cluster: ImaginedCluster) -> None:
    """Pods of the language model answer by themselves, and the condition says who encodes."""
    assert cluster.conditions("llava")["Ready"] == "True ReplicasAvailable"
    assert _encoders(cluster) == "False PodsStarting"
    assert "encode the images that no encoder answers" in cluster.message("llava", "EncodersReady")
    assert cluster.conditions("llava")["Degraded"] == "False AsExpected"
    cluster.pods_ready(NAME)
    assert _encoders(cluster) == "True ReplicasAvailable"
    assert cluster.message("llava", "EncodersReady") == "2 of 2 encoders answer"
    assert cluster.models["llava"].status["encoders"] == {"replicas": 2, "readyReplicas": 2}


def test_a_single_encoder_is_named_in_the_singular() -> None:
    cluster = ImaginedCluster()
    cluster.apply("llava", {"vision": {"placement": "Disaggregated", "replicas": 1}})
    cluster.inspected(tiny_facts())
    cluster.built()
    cluster.pods_ready("llava")
    cluster.pods_ready(NAME)
    assert cluster.message("llava", "EncodersReady") == "1 of 1 encoder answers"


def test_encoders_that_load_are_reported(cluster: ImaginedCluster) -> None:
    """How many load, and since when, stands between what answers and who encodes meanwhile."""
    early, late = (datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC) for second in (5, 9))
    for since in (late, early):
        start = PodStart("Loading", since)
        cluster.trouble(NAME, PodState("", "Running", ready=False, start=start))
    assert _encoders(cluster) == "False PodsStarting"
    assert cluster.message("llava", "EncodersReady") == (
        "0 of 2 encoders of the revision answer; 2 Loading since 2026-01-02T03:04:05Z; "
        "the language model's pods encode the images that no encoder answers"
    )
    cluster.pods_ready(NAME)
    assert cluster.message("llava", "EncodersReady") == "2 of 2 encoders answer"


def test_encoders_in_trouble_are_reported(cluster: ImaginedCluster) -> None:
    """A pod that no node takes makes the model Degraded, and leaves it Ready."""
    cluster.trouble(NAME, PodState("", "Pending", ready=False, unschedulable="0/3 nodes"))
    assert _encoders(cluster) == "False PodsUnschedulable"
    assert cluster.conditions("llava")["Degraded"] == "True PodsUnschedulable"
    assert cluster.conditions("llava")["Ready"] == "True ReplicasAvailable"


def test_what_is_deleted_comes_back(cluster: ImaginedCluster) -> None:
    for kind in ("Deployment", "Service", "PodDisruptionBudget"):
        cluster.remove(Ref(kind, NAME))
        assert NAME in cluster.names(kind)


def test_encoders_keep_their_revision_while_an_engine_is_built(cluster: ImaginedCluster) -> None:
    """Until the new engine is there their own template stays; deleted, they wait for the next."""
    cluster.pods_ready(NAME)
    before = cluster.objects[Ref("Deployment", NAME)]["spec"]
    cluster.apply("llava", {**DISAGGREGATED, "engine": {"maxBatchSize": 3}})
    assert before == cluster.objects[Ref("Deployment", NAME)]["spec"]
    cluster.remove(Ref("Deployment", NAME))
    assert NAME not in cluster.names("Deployment")
    assert NAME in cluster.names("Service")
    assert "the next revision creates it" in cluster.message("llava", "EncodersReady")
    cluster.built()
    assert before != cluster.objects[Ref("Deployment", NAME)]["spec"]


def test_models_without_images_have_no_encoders() -> None:
    cluster = ImaginedCluster()
    cluster.apply("llava", DISAGGREGATED)
    cluster.inspected(tiny_facts(vision=None, family="t5", source_digest=DIGEST.replace("1", "2")))
    assert cluster.conditions("llava")["Planned"] == "False NotSupported"
    assert "set it to Colocated" in cluster.message("llava", "Planned")
    assert cluster.open_jobs() == []
