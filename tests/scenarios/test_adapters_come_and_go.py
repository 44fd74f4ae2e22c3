"""LoRA adapters of a model with room: Jobs, revisions and the status, reconcile after reconcile."""

from typing import Any

import pytest

from mm_api.documents.model_facts import AdapterFacts, LoraFacts, ModelFacts
from mm_operator.model import PodEnd, Ref
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

MODEL = "llava"
ROOM = {"maxAdapters": 2, "maxRank": 16}


def spec(*names: str, room: dict[str, int] | None = ROOM) -> dict[str, Any]:
    """Return a spec with adapters, and with room for some."""
    lora = [
        {"name": name, "source": {"persistentVolumeClaim": {"claimName": "tuned", "path": name}}}
        for name in names
    ]
    return {"engine": {"lora": lora, **({"loraRoom": room} if room else {})}}


def facts(*names: str, rank: int = 8) -> ModelFacts:
    """Return the facts of the tiny model and of these adapters."""
    found = [
        AdapterFacts(name=name, source_digest="sha256:" + f"{number:064x}")
        for number, name in enumerate(sorted(names))
    ]
    if not found:
        return tiny_facts()
    return tiny_facts(lora=LoraFacts(adapters=found, modules={"llm": ["attn_q"]}, rank=rank))


def loaded(cluster: ImaginedCluster) -> None:
    """End the Job that copies adapters."""
    cluster.end("adapters", PodEnd("pod", succeeded=True, exit_code=0))


@pytest.fixture(name="cluster")
def serving_cluster() -> ImaginedCluster:
    """Return a model that serves, with room and without adapters."""
    cluster = ImaginedCluster()
    cluster.apply(MODEL, spec())
    cluster.inspected(facts())
    cluster.built()
    cluster.pods_ready(MODEL)
    return cluster


def change(cluster: ImaginedCluster, *names: str, rank: int = 8) -> None:
    """Apply a spec with these adapters, and let them be inspected."""
    cluster.apply(MODEL, spec(*names))
    cluster.inspected(facts(*names, rank=rank))


def revision(cluster: ImaginedCluster) -> tuple[str, str]:
    """Return the pods' template and the engine that they serve."""
    template = cluster.objects[Ref("Deployment", MODEL)]["spec"]["template"]
    return str(template), cluster.plans[MODEL].engine_config


def test_an_adapter_within_the_room_starts_a_job_and_nothing_else(
    cluster: ImaginedCluster,
) -> None:
    """One comes, another comes, one goes: a Job each; engine and pods stay as they are."""
    before = revision(cluster)
    for names in (("one",), ("one", "two"), ("two",)):
        change(cluster, *names)
        assert [job.split("-")[1] for job in cluster.open_jobs()] == ["adapters"]
        assert cluster.conditions(MODEL)["AdaptersLoaded"] == "False AdaptersLoading"
        loaded(cluster)
        assert cluster.conditions(MODEL)["AdaptersLoaded"] == "True AdaptersLoaded"
        assert [job for job in cluster.names("Job") if "adapters" in job] == []
        assert revision(cluster) == before
    assert cluster.conditions(MODEL)["RollingOut"] == "False RolloutComplete"
    text = "1 of 2 adapters with ranks up to 16 are in the store"
    assert text in cluster.message(MODEL, "AdaptersLoaded")


def test_the_job_knows_engine_model_and_adapters(cluster: ImaginedCluster) -> None:
    """It writes into the store of the engine that is served, in the folder that pods read."""
    change(cluster, "one")
    job = cluster.objects[Ref("Job", cluster.job("adapters"))]
    pod = job["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    serving = cluster.plans[MODEL].serving_plan
    assert serving is not None
    assert serving.lora_room is not None
    given = dict(zip(arguments[1:-2:2], arguments[2:-2:2], strict=True))
    assert (arguments[0], given) == (
        "adapters",
        {
            "--store": "/mnt/store",
            "--fingerprint": serving.fingerprint,
            "--key": serving.lora_room.key,
            "--generation": str(cluster.models[MODEL].generation),
            "--max-rank": "16",
            "--adapter": "one=/mnt/adapters/tuned/one",
        },
    )


@pytest.mark.parametrize(
    ("names", "rank", "reason"),
    [
        pytest.param(("one",), 32, "an adapter has rank 32, above the 16", id="rank"),
        pytest.param(("a", "b", "c"), 8, "no slot is left: 3 adapters are wanted", id="slots"),
    ],
)
def test_an_adapter_beyond_the_room_replaces_the_pods(
    cluster: ImaginedCluster, names: tuple[str, ...], rank: int, reason: str
) -> None:
    """No build: pods with more room, and the reason in condition and Event, also afterwards."""
    template, engine = revision(cluster)
    change(cluster, *names, rank=rank)
    message = cluster.message(MODEL, "AdaptersLoaded")
    assert cluster.conditions(MODEL)["AdaptersLoaded"] == "False AdaptersRollOut"
    assert message.startswith(f"every pod is replaced: {reason}")
    event = f"AdaptersRollOut: AdaptersLoaded: every pod is replaced: {reason}"
    assert any(event in line for line in cluster.log)
    assert revision(cluster)[0] != template
    assert revision(cluster)[1] == engine

    loaded(cluster)
    cluster.pods_ready(MODEL)
    assert cluster.conditions(MODEL)["AdaptersLoaded"] == "True AdaptersLoaded"
    assert reason in cluster.message(MODEL, "AdaptersLoaded")

    change(cluster, "last")
    assert any("replaced: the room changes to 2 of rank 16" in line for line in cluster.log)


def test_a_failed_job_leaves_the_pods_and_is_tried_again(cluster: ImaginedCluster) -> None:
    """The condition has the Job's last words; the next attempt comes after a pause."""
    before = revision(cluster)
    change(cluster, "one")
    said = "LoRA adapter one has rank 99, and pods have room for 16."
    cluster.end("adapters", PodEnd("pod", succeeded=False, exit_code=3, message=said))
    assert cluster.conditions(MODEL)["AdaptersLoaded"] == "False AdaptersFailed"
    assert said in cluster.message(MODEL, "AdaptersLoaded")
    assert cluster.conditions(MODEL)["Degraded"] == "True AdaptersFailed"
    assert cluster.conditions(MODEL)["Ready"].startswith("True")
    cluster.wait(31)
    assert cluster.conditions(MODEL)["AdaptersLoaded"] == "False AdaptersLoading"
    loaded(cluster)
    assert cluster.conditions(MODEL)["AdaptersLoaded"] == "True AdaptersLoaded"
    assert revision(cluster) == before


def test_without_room_an_adapter_is_another_engine() -> None:
    """As ever: a build and a rollout, and no condition about adapters."""
    cluster = ImaginedCluster()
    cluster.apply(MODEL, spec(room=None))
    cluster.inspected(facts())
    cluster.built()
    cluster.pods_ready(MODEL)
    engine = revision(cluster)[1]
    cluster.apply(MODEL, spec("one", room=None))
    cluster.inspected(facts("one"))
    assert cluster.plans[MODEL].engine_config != engine
    assert cluster.open_jobs() == [cluster.job("engine-")]
    assert "AdaptersLoaded" not in cluster.conditions(MODEL)
