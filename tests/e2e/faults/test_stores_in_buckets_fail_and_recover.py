"""A store in a bucket whose server is down, hangs, crawls, refuses, damages: seen and repaired."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mm_runtime.sources.address import BucketAddress
from mm_runtime.store.bucket import BucketStore
from mm_runtime.store.engines import problems
from support.builds import build_only
from support.cut_lines import Line, line_to
from support.eventually import eventually
from support.installed import RESOURCES, Installed, Space
from support.s3_server import KEY, SECRET, S3Server, serving_s3

pytestmark = [pytest.mark.e2e, pytest.mark.s3, pytest.mark.slow, pytest.mark.timeout(900)]

BUCKET = "engines"
CRAWL = 200_000.0
"""Bytes a second: an engine of half a megabyte takes seconds, more than any silence."""
HANG_SECONDS = 400.0
"""A request is given up after 30 s of silence and is tried again for a minute, in each pod."""


@pytest.fixture(name="server", scope="module")
def server_of_engines(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    node = ip_address(str(urlsplit(installed.cluster.server).hostname))
    with serving_s3(tmp_path_factory.mktemp("s3-faults") / "root", str(node - 1)) as server:
        server.bucket(BUCKET)
        yield server


@pytest.fixture(name="line")
def line_to_the_server(server: S3Server) -> Iterator[Line]:
    with line_to(server.host, server.port) as line:
        yield line


def write_keys(space: Space, secret: str = SECRET) -> None:
    space.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": space.name},
            "stringData": {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": secret},
        }
    )


def in_bucket(line: Line, prefix: str) -> dict[str, Any]:
    s3 = {
        "bucket": BUCKET,
        "prefix": prefix,
        "endpoint": line.endpoint,
        "credentialsSecretRef": {"name": "keys"},
    }
    return {"store": {"size": "1Gi", "s3": s3}, "resources": RESOURCES}


def complete(server: S3Server, prefix: str) -> list[str]:
    store = BucketStore(BucketAddress(BUCKET, prefix), server.environment)
    found = store.fingerprints()
    assert [problems(store, one) for one in found] == [[] for _ in found]
    return found


def test_a_server_that_is_down_is_waited_for(alone: Space, server: S3Server, line: Line) -> None:
    write_keys(alone)
    line.cut = True
    alone.apply(build_only(alone, "down", "good", build=in_bucket(line, "down")))

    reported = alone.wait("down", "EngineBuilt", lambda one: "does not answer now" in one.message)
    line.cut = False

    assert not reported.holds
    assert f"s3://{BUCKET}/down does not answer now" in reported.message
    alone.wait("down", "EngineBuilt", lambda one: one.holds)
    assert len(complete(server, "down")) == 1


def test_a_server_that_hangs_is_given_up(alone: Space, server: S3Server, line: Line) -> None:
    write_keys(alone)
    line.held = True
    alone.apply(build_only(alone, "hung", "good", build=in_bucket(line, "hung")))

    reported = alone.wait(
        "hung", "EngineBuilt", lambda one: "no answer in time" in one.message, HANG_SECONDS
    )
    line.held = False

    assert not reported.holds
    alone.wait("hung", "EngineBuilt", lambda one: one.holds)
    assert len(complete(server, "hung")) == 1


def test_a_slow_server_is_no_fault(alone: Space, server: S3Server, line: Line) -> None:
    write_keys(alone)
    line.bytes_a_second = CRAWL
    alone.apply(build_only(alone, "slow", "good", build=in_bucket(line, "slow")))

    alone.wait("slow", "EngineBuilt", lambda one: one.holds)

    assert alone.read("slow")["status"]["build"]["attempts"] == 1
    assert len(complete(server, "slow")) == 1


def test_wrong_keys_are_reported(alone: Space, server: S3Server, line: Line) -> None:
    write_keys(alone, "wrong")
    alone.apply(build_only(alone, "wrong", "good", build=in_bucket(line, "wrong")))

    reported = alone.wait(
        "wrong", "EngineBuilt", lambda one: "refuses the credentials" in one.message
    )
    before = list(Path(server.directory, BUCKET).glob("wrong/*"))
    write_keys(alone)

    assert not reported.holds
    assert "AWS_SECRET_ACCESS_KEY" in reported.message
    assert "wrong" not in reported.message.replace(f"s3://{BUCKET}/wrong", "")
    assert before == []
    alone.wait("wrong", "EngineBuilt", lambda one: one.holds)
    assert len(complete(server, "wrong")) == 1


def test_a_pod_that_cannot_pull_says_why(alone: Space, server: S3Server, line: Line) -> None:
    """A pod starts with wrong keys, then the server is down: reported both times, then Ready."""
    write_keys(alone)
    model = build_only(alone, "pulled", "tiny", build=in_bucket(line, "pulled"))
    alone.apply(model)
    alone.wait("pulled", "EngineBuilt", lambda one: one.holds)
    write_keys(alone, "wrong")
    model["spec"]["replicas"] = 1
    alone.apply(model)

    denied = alone.wait(
        "pulled", "RollingOut", lambda one: "refuses the credentials" in one.message
    )
    # The server goes before the keys come: whichever a pull has begun with, it finds no one.
    line.cut = True
    write_keys(alone)
    down = alone.wait("pulled", "RollingOut", lambda one: "does not answer now" in one.message)
    line.cut = False

    assert (down.reason, denied.reason) == ("PodsCrashing", "PodsCrashing")
    assert "container pull" in down.message
    alone.wait_ready("pulled")
    assert len(complete(server, "pulled")) == 1


def test_a_damaged_blob_is_built_again(alone: Space, server: S3Server, line: Line) -> None:
    """The pull compares every byte: the file is named, the engine built again, the pod Ready."""
    write_keys(alone)
    model = build_only(alone, "rotten", "tiny", build=in_bucket(line, "rotten"))
    alone.apply(model)
    alone.wait("rotten", "EngineBuilt", lambda one: one.holds)
    blobs = Path(server.directory, BUCKET, "rotten").glob("engines/*/blobs/*")
    largest = max(blobs, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    model["spec"]["replicas"] = 1

    alone.apply(model)

    found = alone.wait(
        "rotten", "EngineBuilt", lambda one: one.holds and "is damaged: sha256" in one.message
    )
    assert "model.safetensors" in found.message
    alone.wait_ready("rotten")
    eventually(lambda: len(complete(server, "rotten")) == 1)
