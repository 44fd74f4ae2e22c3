"""With a store in a bucket, builds publish into it and pods pull from it; claims are for work."""

from typing import Any

import pytest

from support.staged import children, inspected

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
