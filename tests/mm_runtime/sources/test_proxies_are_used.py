"""HTTP_PROXY and NO_PROXY of a Job's container lead requests to the Hub and to buckets."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm_api.documents.model_facts import InspectResult, ModelFacts
from mm_runtime.sources.identity import source_digest
from support.cases import cases
from support.forward_proxy import ForwardProxy, forward_proxy
from support.hub_server import REPOSITORY, Hub
from support.s3_server import S3Server

HUB = f"hf://{REPOSITORY}@main"
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with forward_proxy() as running:
        yield running


def inspected(source: str, folder: Path, environment: dict[str, str]) -> ModelFacts:
    message = folder / "message"
    inherited = {name: value for name, value in os.environ.items() if name.lower() not in NAMES}
    command = [sys.executable, "-m", "mm_runtime", "inspect", "--source", source]
    done = subprocess.run(
        [*command, "--termination-log", str(message)],
        env={**inherited, **environment},
        check=False,
        timeout=120,
        capture_output=True,
        text=True,
    )
    facts = InspectResult.from_json(message.read_text()).facts
    assert facts is not None, done.stdout
    return facts


@pytest.mark.parametrize(
    ("direct", "through"),
    [
        pytest.param("", True, id="proxied"),
        pytest.param("127.0.0.1,localhost", False, id="hosts-without-it", marks=pytest.mark.slow),
    ],
)
def test_the_hub(
    hub: Hub, proxy: ForwardProxy, tmp_path: Path, direct: str, *, through: bool
) -> None:
    variables = {"HTTP_PROXY": proxy.url, "NO_PROXY": direct}
    facts = inspected(HUB, tmp_path, {**hub.environment, **variables})

    assert facts.source_digest == source_digest(hub.directory)
    servers = {one.partition("//")[2].partition("/")[0] for one in (hub.endpoint, hub.cdn)}
    assert set(proxy.hosts) == (servers if through else set())


@pytest.mark.s3
@cases(
    "direct through", {"proxied": ("", True), "hosts-without-it": ("127.0.0.1,localhost", False)}
)
def test_a_bucket(
    s3: S3Server,
    large_checkpoint: Path,
    proxy: ForwardProxy,
    tmp_path: Path,
    direct: str,
    *,
    through: bool,
) -> None:
    bucket = f"proxied-{uuid.uuid4().hex}"
    s3.upload(large_checkpoint, bucket, "x")
    variables = {"HTTP_PROXY": proxy.url, "NO_PROXY": direct}
    facts = inspected(f"s3://{bucket}/x", tmp_path, {**s3.environment, **variables})

    assert facts.source_digest == source_digest(large_checkpoint)
    assert set(proxy.hosts) == ({s3.endpoint.partition("//")[2]} if through else set())
