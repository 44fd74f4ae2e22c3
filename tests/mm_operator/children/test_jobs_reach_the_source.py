"""Jobs and pods reach checkpoints, adapters and engines; secrets are named and never read."""

import json
from itertools import pairwise
from typing import Any

import pytest

from mm_api.contract import TIME_LIMIT_VARIABLE
from mm_operator.plan.adapters import access_problem
from mm_operator.plan.inspection import inputs_hash
from support.cases import cases
from support.models import spec_of
from support.staged import children, fresh, inspected

COMMIT = "0123456789abcdef0123456789abcdef01234567"

HUB: dict[str, Any] = {
    "repo": "acme/llava",
    "revision": "v1",
    "endpoint": "https://hub.example.org",
    "tokenSecretRef": {"name": "hub", "key": "read"},
}
BUCKET: dict[str, Any] = {
    "bucket": "weights",
    "prefix": "llava/best/",
    "region": "eu-central-1",
    "endpoint": "https://s3.example.org",
    "credentialsSecretRef": {"name": "keys"},
}


def model_of(**source: Any) -> dict[str, Any]:
    return {"model": {"source": {"persistentVolumeClaim": None, **source}}}


def containers(**source: Any) -> dict[str, dict[str, Any]]:
    spec = model_of(**source)
    jobs = (
        children(fresh(spec))["Job/inspect"],
        children(inspected(spec, commit=COMMIT if "huggingFace" in source else None))["Job/build"],
    )
    found = [job["spec"]["template"]["spec"]["containers"][0] for job in jobs]
    return {container["args"][0]: container for container in found}


def source_of(container: dict[str, Any]) -> str:
    arguments: list[str] = container["args"]
    return arguments[arguments.index("--source") + 1]


def environment_of(container: dict[str, Any]) -> dict[str, Any]:
    """Return name -> value or Secret's key of the variables that lead to the source."""
    return {
        one["name"]: one.get("value", one.get("valueFrom", {}).get("secretKeyRef"))
        for one in container["env"]
        if one["name"].startswith(("HF_", "MM_", "AWS_")) and one["name"] != TIME_LIMIT_VARIABLE
    }


def test_build_fetches_the_commit_that_was_inspected() -> None:
    found = {name: source_of(one) for name, one in containers(huggingFace=HUB).items()}
    assert {"inspect": "hf://acme/llava@v1", "build": f"hf://acme/llava@{COMMIT}"} == found


@pytest.mark.parametrize("command", ["inspect", "build"])
def test_hub_is_reached_with_a_secret(command: str) -> None:
    expected = {
        "HF_ENDPOINT": "https://hub.example.org",
        "HF_TOKEN": {"name": "hub", "key": "read"},
    }
    assert expected == environment_of(containers(huggingFace=HUB)[command])


@pytest.mark.parametrize("command", ["inspect", "build"])
def test_bucket_is_reached_with_a_secret(command: str) -> None:
    """Keys by the names that AWS gave them; the third only exists for temporary ones."""
    container = containers(s3=BUCKET)[command]
    expected = {
        "MM_SOURCE_AWS_ENDPOINT_URL": "https://s3.example.org",
        "MM_SOURCE_AWS_REGION": "eu-central-1",
        "MM_SOURCE_AWS_ACCESS_KEY_ID": {"name": "keys", "key": "AWS_ACCESS_KEY_ID"},
        "MM_SOURCE_AWS_SECRET_ACCESS_KEY": {"name": "keys", "key": "AWS_SECRET_ACCESS_KEY"},
        "MM_SOURCE_AWS_SESSION_TOKEN": {
            "name": "keys",
            "key": "AWS_SESSION_TOKEN",
            "optional": True,
        },
    }
    assert ("s3://weights/llava/best", expected) == (
        source_of(container),
        environment_of(container),
    )


@pytest.mark.parametrize("command", ["inspect", "build"])
def test_remote_sources_mount_nothing(command: str) -> None:
    mounts = {one["mountPath"] for one in containers(s3=BUCKET)[command]["volumeMounts"]}
    assert "/mnt/source" not in mounts


@pytest.mark.parametrize("command", ["inspect", "build"])
def test_cache_of_the_hub_is_mounted(command: str) -> None:
    cache = {**HUB, "cache": {"claimName": "hub", "path": "models"}}
    container = containers(huggingFace=cache)[command]
    mount = {"name": "source", "mountPath": "/mnt/source", "readOnly": True}
    variables = environment_of(container)
    assert (variables["HF_HUB_CACHE"], variables["HF_HUB_OFFLINE"]) == ("/mnt/source/models", "1")
    assert mount in container["volumeMounts"]


def test_public_sources_need_no_secret() -> None:
    hub = containers(huggingFace={"repo": "acme/llava"})["build"]
    bucket = containers(s3={"bucket": "weights"})["build"]
    assert (environment_of(hub), environment_of(bucket)) == ({}, {})


def test_plan_of_an_engine_says_nothing_of_secrets() -> None:
    """The ConfigMap that models share names no Secret of any of them."""
    objects = children(inspected(model_of(huggingFace=HUB), commit=COMMIT))
    assert "tokenSecretRef" not in json.dumps(objects["ConfigMap/build"])


OWN = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "adapters/one.tar.gz"}}
OTHER = {"persistentVolumeClaim": {"claimName": "tuned", "path": "two"}}
HUB_ADAPTERS = {"huggingFace": {"repo": "another/three", "revision": "v1"}}
GUARDED = {"huggingFace": {"repo": "a/b", "tokenSecretRef": {"name": "token", "key": "token"}}}
BUCKET_ADAPTERS = {"s3": {"bucket": "adapters", "prefix": "four"}}
CHECKPOINT = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "llava"}}


def spec(*sources: dict[str, Any]) -> dict[str, Any]:
    lora = [{"name": f"a{number}", "source": source} for number, source in enumerate(sources)]
    return {"model": {"source": CHECKPOINT}, "engine": {"backend": "TensorRT", "lora": lora}}


def test_the_inspection_reads_every_adapter() -> None:
    job = children(fresh(spec(OWN, OTHER, HUB_ADAPTERS, BUCKET_ADAPTERS)))["Job/inspect"]
    pod = job["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    given = [after for word, after in pairwise(arguments) if word == "--adapter"]
    claims = {
        one["persistentVolumeClaim"]["claimName"]: one["persistentVolumeClaim"]["readOnly"]
        for one in pod["volumes"]
        if "persistentVolumeClaim" in one
    }
    mounts = {one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}

    assert given == [
        "a0=/mnt/source/adapters/one.tar.gz",
        "a1=/mnt/adapters/tuned/two",
        "a2=hf://another/three@v1",
        "a3=s3://adapters/four",
    ]
    assert claims == {"checkpoints": True, "tuned": True}
    assert {"/mnt/source", "/mnt/adapters/tuned"} <= mounts


def test_other_adapters_are_inspected_again() -> None:
    """A changed list is another inspection; no list at all is the one of before."""
    assert inputs_hash(spec_of(spec(OWN)), 0) != inputs_hash(spec_of(spec(OTHER)), 0)
    assert inputs_hash(spec_of(spec()), 0) == inputs_hash(
        spec_of({"model": {"source": CHECKPOINT}}), 0
    )


@cases(
    "sources words",
    {
        "two-secrets": ((HUB_ADAPTERS, GUARDED), "different endpoints, secrets or caches"),
        "cache": (
            ({"huggingFace": {"repo": "a/b", "cache": {"claimName": "c"}}},),
            "cache is mounted where the checkpoint's is",
        ),
    },
)
def test_a_job_has_one_set_of_credentials(sources: tuple[dict[str, Any], ...], words: str) -> None:
    """Sources that would need two sets are refused before anything runs."""
    problem = access_problem(spec_of(spec(*sources)))
    assert problem is not None
    assert words in str(problem)
    assert access_problem(spec_of(spec(OWN, HUB_ADAPTERS, BUCKET_ADAPTERS))) is None


STORE: dict[str, Any] = {
    "build": {
        "store": {
            "s3": {
                "bucket": "engines",
                "prefix": "team/a",
                "endpoint": "https://s3.example.org",
                "credentialsSecretRef": {"name": "keys"},
            }
        }
    }
}


def secrets_of(container: dict[str, Any]) -> set[str]:
    return {one["name"] for one in container["env"] if "valueFrom" in one}


KEYS = {
    "MM_STORE_AWS_ACCESS_KEY_ID",
    "MM_STORE_AWS_SECRET_ACCESS_KEY",
    "MM_STORE_AWS_SESSION_TOKEN",
}


def test_build_works_on_the_claim_and_publishes() -> None:
    """The Job has the claim to continue from after a kill, and the keys of the bucket."""
    job = children(inspected(STORE))["Job/build"]["spec"]["template"]["spec"]
    container = job["containers"][0]
    where = container["args"].index("--store")
    assert container["args"][where : where + 4] == [
        "--store",
        "s3://engines/team/a",
        "--work",
        "/mnt/store",
    ]
    assert secrets_of(container) == KEYS
    assert {"claimName": "multimodal-store"} in [
        volume.get("persistentVolumeClaim") for volume in job["volumes"]
    ]


def test_pods_pull_before_they_serve() -> None:
    """A container before the server pulls to a disk of the node; only it has the keys."""
    pod = children(inspected(STORE, built=True))["Deployment/server"]["spec"]["template"]["spec"]
    pull, server = pod["initContainers"]
    assert (pull["name"], server["name"]) == ("pull", "server")
    assert pull["args"][:2] == ["store", "pull"]
    assert secrets_of(pull) == KEYS
    assert set() == secrets_of(server) | secrets_of(pod["containers"][0])
    assert {"name": "store", "emptyDir": {}} in pod["volumes"]
    assert pull["args"][2] in server["args"][server["args"].index("--manifest") + 1]


def test_encoders_pull_what_they_open() -> None:
    """An encoder's pod requests its part of the engine, the language model's for all of it."""
    spec = {**STORE, "vision": {"placement": "Disaggregated"}}
    objects = children(inspected(spec, built=True))
    pods = {
        role: objects[f"Deployment/{role}"]["spec"]["template"]["spec"]["initContainers"][0]
        for role in ("encoder", "server")
    }
    assert pods["encoder"]["args"][-2:] == ["--role", "encoder"]
    assert pods["server"]["args"] == pods["encoder"]["args"][:-2]
    assert secrets_of(pods["encoder"]) == KEYS


def test_stores_are_distinguished() -> None:
    names = {children(inspected(spec))["Job/build"]["metadata"]["name"] for spec in ({}, STORE)}
    assert len(names) == 2


@pytest.mark.parametrize("built", [False, True])
def test_claims_need_no_pull(built: bool) -> None:  # noqa: FBT001 (a stage)
    text = str(children(inspected({}, built=built)))
    assert "MM_STORE_" not in text
    assert "'pull'" not in text
