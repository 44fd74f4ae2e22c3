"""Jobs get the checkpoint's address and the way to it; secrets are named and never read."""

import json
from typing import Any

import pytest

from mm_api.contract import TIME_LIMIT_VARIABLE
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
