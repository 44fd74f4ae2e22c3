"""A checkpoint from the Hub or a bucket, an engine in a bucket: on the real cluster, served."""

import base64
import json
import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from mm_api.documents.server_state import Role
from mm_runtime.base.needed_files import needed_files
from mm_runtime.sources.address import BucketAddress
from mm_runtime.store.bucket import BucketStore
from mm_runtime.store.engines import parse_manifest, problems
from support.hub_server import COMMIT, REPOSITORY, Hub, serving_hub
from support.installed import RESOURCES, Installed, Space, model_space
from support.s3_server import KEY, SECRET, S3Server, serving_s3
from support.scripts import ROOT
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.e2e, pytest.mark.s3, pytest.mark.slow, pytest.mark.timeout(900)]

TOKEN = "hf_only_for_these_tests"
STORE = "engines"
AIR_GAPPED = ROOT / "docs" / "tasks" / "air-gapped.md"


@pytest.fixture(scope="module")
def host(installed: Installed) -> str:
    """Address of this machine as pods see it: the other end of the node's link."""
    node = ip_address(str(urlsplit(installed.cluster.server).hostname))
    return str(node - 1)


@pytest.fixture(scope="module")
def hub(host: str) -> Iterator[Hub]:
    with serving_hub(CHECKPOINT, host) as server:
        server.token = TOKEN
        yield server


@pytest.fixture(scope="module")
def buckets(host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_s3(tmp_path_factory.mktemp("e2e-s3") / "root", host) as server:
        server.upload(CHECKPOINT, "checkpoints", "tiny")
        server.bucket(STORE)
        yield server


@pytest.fixture(name="space", scope="module")
def space_with_secrets(installed: Installed) -> Iterator[Space]:
    with model_space(installed, "servers") as space:
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        space.apply(
            secret(space, "hub", {"token": TOKEN}),
            secret(space, "keys", keys),
        )
        yield space


def secret(space: Space, name: str, values: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": space.name},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def of_hub(hub: Hub, secret: str) -> dict[str, Any]:
    token = {"tokenSecretRef": {"name": secret}}
    return {"huggingFace": {"repo": REPOSITORY, "endpoint": hub.endpoint, **token}}


def place(server: S3Server, bucket: str, prefix: str) -> dict[str, Any]:
    key = {"credentialsSecretRef": {"name": "keys"}}
    return {"bucket": bucket, "prefix": prefix, "endpoint": server.endpoint, **key}


def model_of(space: Space, name: str, source: dict[str, Any], **store: Any) -> dict[str, Any]:
    model = space.model(name, "unused")
    model["spec"]["model"]["source"] = source
    model["spec"]["build"]["store"] |= store
    return model


def test_model_of_the_hub_is_served_from_a_bucket(
    space: Space, hub: Hub, buckets: S3Server
) -> None:
    """Inspected and fetched with a token, pinned, published, pulled, Ready; no secret anywhere."""
    space.apply(model_of(space, "from-hub", of_hub(hub, "hub"), s3=place(buckets, STORE, "team")))
    space.wait_ready("from-hub")

    status = space.read("from-hub")["status"]
    store = BucketStore(BucketAddress(STORE, "team"), buckets.environment)
    assert status["plan"]["sourceRevision"] == COMMIT
    assert [status["plan"]["fingerprint"]] == store.fingerprints()
    assert problems(store, status["plan"]["fingerprint"]) == []
    everything = [
        space.get(kind)
        for kind in ("mmm", "jobs", "pods", "configmaps", "deployments", "events", "pvc")
    ]
    logs = space.kubectl(
        "logs", "-l", "app.kubernetes.io/component", "--all-containers", check=False
    )
    text = json.dumps(everything) + logs
    assert [word for word in (TOKEN, SECRET) if word in text] == []


def pulled_bytes(space: Space, deployment: str) -> int:
    (line,) = space.kubectl("logs", f"deployment/{deployment}", "-c", "pull").splitlines()
    return int(line.split()[1])


def test_model_of_a_bucket_is_ready(space: Space, buckets: S3Server) -> None:
    """The same checkpoint from S3 is the same engine: nothing is built again for it.

    Its encoder, in a pod of its own, has pulled the part that encoders open.
    """
    source = {"s3": place(buckets, "checkpoints", "tiny")}
    model = model_of(space, "from-bucket", source, s3=place(buckets, STORE, "team"))
    model["spec"]["vision"] = {"placement": "Disaggregated", "resources": RESOURCES}
    space.apply(model)
    space.wait_ready("from-bucket")
    space.wait("from-bucket", "EncodersReady", lambda condition: condition.holds)
    plans = [space.read(name)["status"]["plan"] for name in ("from-hub", "from-bucket")]
    assert plans[0]["fingerprint"] == plans[1]["fingerprint"]
    assert len(list(Path(buckets.directory, STORE, "team/engines").iterdir())) == 1
    fingerprint = plans[0]["fingerprint"]
    store = BucketStore(BucketAddress(STORE, "team"), buckets.environment)
    files = parse_manifest(store.manifest(fingerprint), fingerprint, "the bucket").files
    expected = {
        deployment: sum(file.size for file in needed_files(files, role))
        for deployment, role in (
            ("from-bucket", Role.SERVER),
            ("from-bucket-encoders", Role.ENCODER),
        )
    }
    assert expected == {deployment: pulled_bytes(space, deployment) for deployment in expected}
    assert expected["from-bucket-encoders"] < expected["from-bucket"]


def test_missing_secret_is_reported_with_a_message(space: Space, hub: Hub) -> None:
    space.apply(model_of(space, "no-secret", of_hub(hub, "absent")))
    found = space.wait(
        "no-secret", "Planned", lambda condition: '"absent" not found' in condition.message
    )
    assert not found.holds


def test_the_air_gapped_page_is_walked(space: Space, hub: Hub) -> None:
    """Its model, with the mirror of its values: pods here reach no other server.

    The mirror stands in the model, as the chart's value would for all of them.
    """
    page = AIR_GAPPED.read_text(encoding="utf-8")
    values, model = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    served = space.model("air-gapped", "unused")
    source = model["spec"]["model"]["source"]["huggingFace"]
    assert (source["repo"], model["metadata"]["name"]) == (REPOSITORY, "air-gapped")
    served["spec"]["model"]["source"] = {"huggingFace": source}
    served["spec"]["network"] = {**values["network"], "hubEndpoint": hub.endpoint}
    del served["spec"]["network"]["caBundle"]  # the mirror here has no certificate
    space.apply(served)
    space.wait_ready("air-gapped")
    assert space.read("air-gapped")["status"]["plan"]["sourceRevision"] == COMMIT
