"""The pod of a comparison whose engine is no checkpoint: it reaches the source as builders do."""

from typing import Any

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.network import NetworkSpec, ProxySpec
from mm_ctl.comparing.pod import compare_pod
from mm_ctl.comparing.source import disk_bytes, needs_source, with_source
from support.cases import cases
from support.model_documents import document
from support.models import tiny_facts
from support.staged import children, inspected

COMMIT = "c" * 40
HUB = {
    "persistentVolumeClaim": None,
    "huggingFace": {
        "repo": "a/b",
        "revision": "main",
        "endpoint": "https://hub.example",
        "tokenSecretRef": {"name": "hub", "key": "token"},
    },
}
CHART = NetworkSpec(
    proxy=ProxySpec(http="http://chart:3128", https="http://chart:3128", no_proxy=["10.0.0.0/8"]),
    hub_endpoint="https://mirror.example",
)
"""What the operator's chart sets for all models."""

DISK = 3 << 30
CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "llava"}}


def spec_of(changes: dict[str, Any]) -> MultimodalModelSpec:
    complete = document(changes)["spec"]
    source = complete["model"]["source"]
    complete["model"]["source"] = {key: one for key, one in source.items() if one is not None}
    return MultimodalModelSpec.model_validate(complete)


def fetching(changes: dict[str, Any], commit: str | None = None) -> dict[str, Any]:
    """Return the spec of the pod that compares a model of a source."""
    served = children(inspected(built=True))["Deployment/server"]
    pod = compare_pod(served, "http://llava.demo.svc/v1", memory="3Gi", seconds=60)
    spec = spec_of(changes)
    network = spec.network.over(CHART)
    made = with_source(pod, spec, commit, network=network, disk_bytes=DISK)
    found: dict[str, Any] = made["spec"]
    return found


@cases(
    "engine needed",
    {
        "reference": ({}, False),
        "staged": ({"backend": "PyTorch"}, False),
        "engines": ({"backend": "TensorRT"}, True),
    },
)
def test_only_engines_without_their_checkpoint_need_its_source(
    engine: dict[str, Any], *, needed: bool
) -> None:
    assert needs_source(spec_of({"engine": engine})) == needed


def test_the_hub_is_reached_at_the_inspected_commit_through_the_proxy() -> None:
    network = {"proxy": {"https": "http://proxy:3128", "noProxy": ["10.0.0.0/8"]}}
    spec = fetching({"model": {"source": HUB}, "network": network}, COMMIT)
    (own,) = spec["containers"]
    assert own["args"][-4:] == ["--source", f"hf://a/b@{COMMIT}", "--work", "/mnt/checkpoint"]
    variables = {one["name"]: one for one in own["env"]}
    assert len(variables) == len(own["env"])
    assert variables["HF_ENDPOINT"]["value"] == "https://hub.example"
    assert variables["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    assert variables["HTTPS_PROXY"]["value"] == "http://proxy:3128"


def test_the_charts_network_leads_to_the_hub() -> None:
    """Its proxy and its mirror, where the model names none."""
    source = {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b", "revision": "main"}}
    (own,) = fetching({"model": {"source": source}}, COMMIT)["containers"]
    values = {one["name"]: one.get("value") for one in own["env"]}
    assert values["HF_ENDPOINT"] == "https://mirror.example"
    assert (values["HTTPS_PROXY"], values["NO_PROXY"]) == ("http://chart:3128", "10.0.0.0/8")


def test_the_disk_is_bounded_and_requested() -> None:
    """The volume ends where the request does, so that no other pod of the node is evicted."""
    spec = fetching({"model": {"source": HUB}}, COMMIT)
    (own,) = spec["containers"]
    assert {"name": "checkpoint", "emptyDir": {"sizeLimit": str(DISK)}} in spec["volumes"]
    for kind in ("requests", "limits"):
        assert own["resources"][kind]["ephemeral-storage"] == str(DISK)
        assert own["resources"][kind]["memory"] == "3Gi"


@cases(
    "changes engine expected",
    {
        "safetensors": ({}, 0, 7),
        "pickles-beside-what-they-become": ({"weight_format": "pickle"}, 0, 13),
        "engine-of-a-bucket": ({}, 2 << 30, 9),
        "engine-of-unknown-size": ({}, None, 13),
    },
)
def test_the_disk_follows_the_checkpoint(
    changes: dict[str, Any], engine: int | None, expected: int
) -> None:
    """GiB: weights of 6, and one beside them."""
    facts = tiny_facts(weight_bytes=6 << 30, **changes)
    assert disk_bytes(facts, engine=engine) == expected << 30


def test_a_claim_is_read_only_and_attached_once() -> None:
    """The store may be the same claim, which the pod has already."""
    spec = fetching({"model": {"source": CLAIM}})
    (own,) = spec["containers"]
    claims = [one for one in spec["volumes"] if one["name"] == "source"]
    assert [one["persistentVolumeClaim"] for one in claims] == [
        {"claimName": "checkpoints", "readOnly": True}
    ]
    (mount,) = (one for one in own["volumeMounts"] if one["name"] == "source")
    assert mount["readOnly"]
    assert f"{mount['mountPath']}/llava" in own["args"]

    store = next(one for one in spec["volumes"] if one["name"] == "store")
    shared = {"persistentVolumeClaim": {"claimName": store["persistentVolumeClaim"]["claimName"]}}
    spec = fetching({"model": {"source": shared}})
    (own,) = spec["containers"]
    assert not [one for one in spec["volumes"] if one["name"] == "source"]
    (path,) = (one["mountPath"] for one in own["volumeMounts"] if one["mountPath"] == "/mnt/source")
    assert own["args"][own["args"].index("--source") + 1] == path


def test_the_builders_account_reads_the_source() -> None:
    account = {"serviceAccountName": "reads-checkpoints"}
    spec = fetching({"model": {"source": CLAIM}, "build": account})
    assert spec["serviceAccountName"] == "reads-checkpoints"
