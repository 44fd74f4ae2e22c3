"""LoRA adapters of a running model on a real API server; no node, no kubelet."""

from pathlib import Path
from typing import Any

import pytest

from mm_api import labels
from mm_api.documents.model_facts import AdapterFacts, LoraFacts, ModelFacts
from support.absent_kubelet import built, end_pod, get, inspected, serving, wait_for_pod
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.models import tiny_facts
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster

MODEL = "llava"
ADAPTERS_POD = f"{labels.MODEL}={MODEL},{labels.APP_COMPONENT}={labels.Component.ADAPTERS}"
BUILDS = f"{labels.APP_COMPONENT}={labels.Component.BUILD}"


def model(*names: str) -> dict[str, Any]:
    """Return a model with adapters, and room for two of rank 16."""
    lora = [
        {"name": name, "source": {"persistentVolumeClaim": {"claimName": "tuned", "path": name}}}
        for name in names
    ]
    room = {"maxAdapters": 2, "maxRank": 16}
    return document({"engine": {"lora": lora, "loraRoom": room}}, name=MODEL)


def facts(*names: str, rank: int = 8) -> ModelFacts:
    """Return the facts of the tiny model and of these adapters."""
    found = [AdapterFacts(name=name, source_digest="sha256:" + "0" * 64) for name in names]
    return tiny_facts(lora=LoraFacts(adapters=found, modules={"llm": ["attn_q"]}, rank=rank))


def adapters_loaded(api: Api) -> dict[str, Any]:
    """Return the condition AdaptersLoaded, empty before it is written."""
    found = get(api, "mmm", MODEL).get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == "AdaptersLoaded"), {})


def reaches(api: Api, status: str, reason: str) -> str:
    """Wait until the condition is so; return its message."""
    eventually(
        lambda: (
            (adapters_loaded(api).get("status"), adapters_loaded(api).get("reason"))
            == (status, reason)
        ),
        showing=lambda: adapters_loaded(api),
    )
    return str(adapters_loaded(api)["message"])


def servers(api: Api) -> tuple[set[str], int]:
    """Return the uids of the pods that serve, and how many revisions there have been."""
    selector = f"{labels.MODEL}={MODEL},{labels.APP_COMPONENT}={labels.Component.SERVER}"
    pods = api.read("pods", "-l", selector)["items"]
    revisions = len(api.read("replicasets", "-l", selector)["items"])
    return {pod["metadata"]["uid"] for pod in pods}, revisions


def engines(api: Api) -> set[str]:
    """Return the uids of all Jobs that build."""
    return {one["metadata"]["uid"] for one in api.read("jobs", "-l", BUILDS)["items"]}


def test_adapters_fill_their_room_without_a_rollout(api: Api, tmp_path: Path) -> None:
    """Within the room: a Job, no build, no rollout. Beyond: a rollout, its reason in the status."""
    with running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(model())
        inspected(api, MODEL)
        built(api)
        serving(api, MODEL)
        reaches(api, "True", "AdaptersLoaded")
        before, jobs = servers(api), engines(api)

        api.apply(model("one"))
        inspected(api, MODEL, facts("one"))
        pod = wait_for_pod(api, ADAPTERS_POD)
        assert "one=/mnt/adapters/tuned/one" in pod["spec"]["containers"][0]["args"]
        end_pod(api, pod)
        eventually(lambda: "1 of 2 adapters" in reaches(api, "True", "AdaptersLoaded"))
        assert servers(api) == before
        assert engines(api) <= jobs

        api.apply(model("one", "tall"))
        inspected(api, MODEL, facts("one", "tall", rank=32))
        message = reaches(api, "False", "AdaptersRollOut")
        assert message.startswith(
            "every pod is replaced: an adapter has rank 32, above the 16 that there is room for"
        )
        eventually(lambda: servers(api)[1] == before[1] + 1)
        assert engines(api) <= jobs
