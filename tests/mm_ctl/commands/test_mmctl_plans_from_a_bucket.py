"""`mmctl plan --checkpoint s3://BUCKET/PREFIX` reads configurations and headers by ranges."""

import json
import uuid
from pathlib import Path

import obstore
import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_ctl.cli import main
from mm_ctl.commands import remote_folder as reading
from mm_ctl.commands.bucket_checkpoint import BucketCheckpoint
from mm_ctl.commands.checkpoint_folder import INDEX, facts_of_folder
from mm_ctl.commands.remote_folder import remote_folder
from mm_ctl.documents import UsageError
from mm_runtime.base.buckets import open_bucket
from support.certificates import signed_by_an_authority
from support.counting_relay import counting_relay
from support.hollow_checkpoint import write_checkpoint, write_safetensors
from support.model_documents import document
from support.s3_server import S3Server

pytestmark = pytest.mark.s3

ELEMENTS = 1024 * 1024


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of one weight file, 2 MB."""
    folder = write_checkpoint(tmp_path / "checkpoint")
    write_safetensors(folder / "model.safetensors", {"a": ("F16", (ELEMENTS,))})
    return folder


@pytest.fixture
def bucket(s3: S3Server, folder: Path) -> str:
    """A bucket of the test's own, with the checkpoint below `x/`."""
    name = f"planned-{uuid.uuid4().hex}"
    s3.upload(folder, name, "x")
    return name


def facts(address: str, environment: dict[str, str]) -> ModelFacts:
    """Return what is found at an address."""
    with remote_folder(BucketCheckpoint(address, environment)) as read:
        return facts_of_folder(read, None)


def test_facts_are_those_of_the_folder(
    s3: S3Server, bucket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most bytes of the weights stay where they are, with one file and with an index."""
    monkeypatch.setattr(reading, "FIRST_BYTES", 64)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    write_safetensors(folder / "model-00002-of-00002.safetensors", {"b": ("F16", (ELEMENTS,))})
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 4 * ELEMENTS}}))
    client = s3.bucket(f"{bucket}-several")
    for path in folder.iterdir():
        obstore.put(client, path.name, path)
        obstore.put(client, f"other/step/{path.name}", b"not this one")

    with counting_relay(s3.port) as relay:
        variables = {**s3.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{relay.port}"}
        one = facts(f"s3://{bucket}/x/", variables)
        several = facts(f"s3://{bucket}-several", variables)

    assert (one.family, one.parameters) == ("llava", ELEMENTS)
    assert several == facts_of_folder(folder, None)
    assert several.parameters == 2 * ELEMENTS
    assert 0 < relay.bytes_sent < 32_768


def test_the_plan_is_printed(
    s3: S3Server,
    bucket: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command itself, with endpoint and keys of the environment."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    spec = folder.with_name("model.yaml")
    spec.write_text(json.dumps(document({"engine": {"backend": "Reference"}})))

    printed = []
    for place in (f"s3://{bucket}/x", str(folder)):
        assert main(["plan", "-f", str(spec), "--checkpoint", place, "-o", "json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_a_private_authority_is_trusted_where_it_is_named(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    """And refused with the variable that names it."""
    authority, certificate = signed_by_an_authority(tmp_path, "bucket", "IP:127.0.0.1")
    with counting_relay(s3.port, certificate) as relay:
        variables = {**s3.environment, "AWS_ENDPOINT_URL": f"https://127.0.0.1:{relay.port}"}
        with pytest.raises(UsageError, match=r"not trusted: .* AWS_CA_BUNDLE"):
            facts(f"s3://{bucket}/x", variables)
        trusting = {**variables, "AWS_CA_BUNDLE": str(authority)}
        assert facts(f"s3://{bucket}/x", trusting).family == "llava"


@pytest.mark.parametrize(
    ("address", "changes", "words"),
    [
        pytest.param("s3:///x", {}, "names no bucket", id="no-bucket"),
        pytest.param("s3://missing-{id}/x", {}, "does not exist .*NoSuchBucket", id="missing"),
        pytest.param("s3://{id}/other", {}, "holds no object: give the prefix", id="no-prefix"),
        pytest.param("s3://{id}", {}, "holds no object", id="nothing-at-this-level"),
        pytest.param(
            "s3://{id}/x",
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            r"refuses the credentials \(SignatureDoesNotMatch\)\. Set AWS_ACCESS_KEY_ID",
            id="wrong-key",
        ),
        pytest.param(
            "s3://{id}/x",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            r"refuses the credentials .*Set AWS_ACCESS_KEY_ID",
            id="no-key",
        ),
        pytest.param(
            "s3://{id}/x", {"AWS_CA_BUNDLE": "/missing.pem"}, "/missing.pem cannot be read", id="ca"
        ),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    s3: S3Server, bucket: str, address: str, changes: dict[str, str], words: str
) -> None:
    """What is wrong, and what to do."""
    with pytest.raises(UsageError, match=words) as caught:
        facts(address.format(id=bucket), {**s3.environment, **changes})
    assert "Secret" not in str(caught.value)


def test_an_object_that_is_replaced_meanwhile_is_not_mixed(s3: S3Server, bucket: str) -> None:
    """Header of one version, length of another: the facts would be of neither."""
    client = open_bucket(bucket, "STORE", s3.environment)
    source = BucketCheckpoint(f"s3://{bucket}/x", s3.environment)
    assert "config.json" in source.names()
    obstore.put(client, "x/config.json", b"{}")

    with pytest.raises(UsageError, match="was replaced while it was read"):
        source.read("config.json", 100)


def test_an_unknown_scheme_is_refused(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With those that are known."""
    spec = tmp_path / "model.yaml"
    spec.write_text(json.dumps(document({})))
    assert main(["plan", "-f", str(spec), "--checkpoint", f"gs://{folder}"]) != 0
    assert "expected a folder, hf://ORG/NAME@REVISION or s3://" in capsys.readouterr().err
