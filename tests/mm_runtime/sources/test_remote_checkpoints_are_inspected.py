"""Inspecting a remote checkpoint reads its small files and samples, and finds the same facts."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.model_facts import InspectReason, InspectResult
from mm_runtime.cli import main
from mm_runtime.errors import InspectInterruptedError, InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.inspect.source import inspect_source
from mm_runtime.sources import hub as hub_module
from support.broken_checkpoints import copied
from support.cases import cases
from support.certificates import signed_by_itself
from support.hub_server import COMMIT, REPOSITORY, Hub, serving_hub
from support.s3_server import KEY, SECRET, S3Server

SOURCE = f"hf://{REPOSITORY}@main"
TOKEN = "hf_secret_that_no_log_may_show"


def refusal(hub: Hub, **environment: str) -> tuple[InspectReason, str]:
    with pytest.raises(InspectRefusedError) as caught:
        inspect_source(SOURCE, InspectOptions(), {**hub.environment, **environment})
    return caught.value.reason, caught.value.message


def inspected_in_a_process(folder: Path, **environment: str) -> InspectResult:
    message = folder / "message"
    command = [sys.executable, "-m", "mm_runtime", "inspect", "--source", SOURCE]
    subprocess.run(
        [*command, "--termination-log", str(message)],
        env={**os.environ, **environment},
        check=False,
        timeout=120,
        capture_output=True,
    )
    return InspectResult.from_json(message.read_text())


def test_hub_gives_the_facts_of_the_directory(hub: Hub) -> None:
    expected = inspect(hub.directory, InspectOptions())
    facts = inspect_source(SOURCE, InspectOptions(), hub.environment)
    assert expected.model_copy(update={"source_revision": COMMIT}) == facts


def test_most_of_the_weights_stay_on_the_hub(hub: Hub) -> None:
    """Of 12 MB of weights a quarter is read: header and samples."""
    inspect_source(SOURCE, InspectOptions(), hub.environment)
    size = (hub.directory / "model.safetensors").stat().st_size
    assert hub.bytes_sent < size / 4


@pytest.mark.s3
def test_bucket_gives_the_facts_of_the_directory(s3: S3Server, large_checkpoint: Path) -> None:
    """The same digest from a bucket: where a checkpoint lies is not part of what it is."""
    s3.upload(large_checkpoint, "facts", "models/llava")
    facts = inspect_source("s3://facts/models/llava", InspectOptions(), s3.environment)
    assert inspect(large_checkpoint, InspectOptions()) == facts


@cases(
    "environment words",
    {
        "none": ({"HF_TOKEN": ""}, "no token is set"),
        "wrong": ({"HF_TOKEN": "hf_wrong"}, "the token may not read it"),
    },
)
def test_missing_token_is_reported(small_hub: Hub, environment: dict[str, str], words: str) -> None:
    small_hub.token = TOKEN
    reason, message = refusal(small_hub, **environment)
    assert (reason, words in message) == (InspectReason.SOURCE_DENIED, True)
    assert TOKEN not in message
    assert "hf_wrong" not in message


def test_gated_repository_is_reported(small_hub: Hub) -> None:
    small_hub.gated = True
    reason, message = refusal(small_hub)
    assert (reason, "accept its terms" in message) == (InspectReason.SOURCE_DENIED, True)


def test_unknown_revision_is_reported(small_hub: Hub) -> None:
    small_hub.branches = {}
    reason, message = refusal(small_hub)
    assert (reason, "no revision 'main'" in message) == (InspectReason.SOURCE_NOT_FOUND, True)


def test_refusals_name_the_address(small_hub: Hub) -> None:
    (small_hub.directory / "config.json").unlink()
    reason, message = refusal(small_hub)
    assert (reason, message.startswith(SOURCE)) == (InspectReason.CONFIG_MISSING, True)
    assert "/tmp" not in message


def test_limited_rate_is_waited_for(small_hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "RETRY_DELAYS", (0.01, 0.01))
    small_hub.refuse = [429, 503]
    assert inspect_source(SOURCE, InspectOptions(), small_hub.environment).source_revision == COMMIT


def test_hub_that_stays_down_is_no_refusal(
    small_hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(hub_module, "RETRY_DELAYS", (0.01,))
    small_hub.refuse = [503, 503]
    monkeypatch.setenv("HF_ENDPOINT", small_hub.endpoint)
    message = tmp_path / "message"
    code = main(["inspect", "--source", SOURCE, "--termination-log", str(message)])
    result = InspectResult.from_json(message.read_text())
    assert code == ExitCode.RETRY
    assert result.error is not None
    assert result.error.reason == InspectReason.SOURCE_UNAVAILABLE
    assert "answered 503" in result.error.message
    assert "503" in capsys.readouterr().out


def test_a_certificate_that_is_not_trusted_is_no_outage(tmp_path: Path) -> None:
    """A private authority's Hub is refused at once, and read where the authority is trusted."""
    certificate = signed_by_itself(tmp_path, "hub")
    folder = copied("tiny-llava", tmp_path / "on-the-hub")
    with serving_hub(folder, certificate=certificate) as hub:
        refused = inspected_in_a_process(tmp_path, HF_ENDPOINT=hub.endpoint)
        trusted = inspected_in_a_process(
            tmp_path, HF_ENDPOINT=hub.endpoint, SSL_CERT_FILE=str(certificate[0])
        )

    assert refused.error is not None
    assert refused.error.reason == InspectReason.SOURCE_UNTRUSTED
    assert "spec.network.caBundle" in refused.error.message
    assert trusted.facts is not None


@pytest.mark.s3
@cases(
    "source changes reason words",
    {
        "wrong-key": (
            "s3://refused-{id}/x",
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            InspectReason.SOURCE_DENIED,
            "SignatureDoesNotMatch",
        ),
        "empty-prefix": (
            "s3://refused-{id}/elsewhere",
            {},
            InspectReason.SOURCE_NOT_FOUND,
            "holds no object",
        ),
        "no-bucket": ("s3://no-such-bucket/x", {}, InspectReason.SOURCE_NOT_FOUND, "NoSuchBucket"),
    },
)
def test_bucket_refusals_say_what_to_do(
    s3: S3Server,
    tmp_path: Path,
    *,
    source: str,
    changes: dict[str, str],
    reason: InspectReason,
    words: str,
) -> None:
    name = uuid.uuid4().hex
    (tmp_path / "config.json").write_text("{}")
    s3.upload(tmp_path, f"refused-{name}", "x")
    with pytest.raises(InspectRefusedError) as caught:
        inspect_source(source.format(id=name), InspectOptions(), {**s3.environment, **changes})
    assert reason == caught.value.reason
    assert words in caught.value.message
    assert SECRET not in caught.value.message


@pytest.mark.s3
def test_bucket_server_that_is_down_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mm_runtime.base.buckets.RETRIES", 0)
    environment = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    with pytest.raises(InspectInterruptedError, match="connection refused"):
        inspect_source("s3://somewhere/x", InspectOptions(), environment)


def test_names_that_leave_the_directory_are_refused(small_hub: Hub) -> None:
    """A file called ../x on a mirror is not written anywhere."""
    sibling = {"rfilename": "../evil.json", "size": 2, "blobId": "0" * 40}
    plain = small_hub.sibling
    small_hub.sibling = lambda path: sibling if path.name == "config.json" else plain(path)  # type: ignore[method-assign]
    reason, message = refusal(small_hub)
    assert (reason, "lies outside" in message) == (InspectReason.SOURCE_NOT_FOUND, True)


def test_other_formats_stay_on_the_hub(small_hub: Hub) -> None:
    """Repositories hold the same weights again in other folders: no one reads or counts them."""
    plain = inspect(small_hub.directory, InspectOptions())
    other = small_hub.directory / "original"
    other.mkdir()
    (other / "consolidated.safetensors").write_bytes(bytes(100_000))
    facts = inspect_source(SOURCE, InspectOptions(), small_hub.environment)
    requested = [path for _, path, _ in small_hub.requests if "consolidated" in path]
    assert (plain.source_digest, []) == (facts.source_digest, requested)
