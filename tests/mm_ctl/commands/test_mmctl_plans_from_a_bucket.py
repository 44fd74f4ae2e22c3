"""`mmctl plan --checkpoint s3://BUCKET/PREFIX` inspects what is in a bucket, as Jobs do."""

import json
import uuid
from pathlib import Path

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_ctl.cli import main
from mm_ctl.commands.checkpoint_folder import facts_of_checkpoint
from mm_ctl.documents import UsageError
from mm_runtime.inspect.checkpoint import InspectOptions
from support.cases import cases
from support.hollow_checkpoint import write_checkpoint
from support.model_documents import document
from support.s3_server import S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "checkpoint")


@pytest.fixture
def bucket(s3: S3Server, folder: Path) -> str:
    name = f"planned-{uuid.uuid4().hex}"
    s3.upload(folder, name, "x")
    return name


def facts(address: str, environment: dict[str, str]) -> ModelFacts:
    return facts_of_checkpoint(address, InspectOptions(), environment=environment)


def test_the_plan_is_printed(
    s3: S3Server,
    bucket: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    spec = folder.with_name("model.yaml")
    spec.write_text(json.dumps(document({"engine": {"backend": "Reference"}})))

    printed = []
    for place in (f"s3://{bucket}/x", str(folder)):
        assert main(["plan", "-f", str(spec), "--checkpoint", place, "-o", "json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@cases(
    "address changes words",
    {
        "no-bucket": ("s3:///x", {}, "names no bucket"),
        "missing": ("s3://missing-{id}/x", {}, "does not exist .*NoSuchBucket"),
        "no-prefix": ("s3://{id}/other", {}, "holds no"),
        "wrong-key": (
            "s3://{id}/x",
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            "refuses the credentials .*Here the keys are AWS_ACCESS_KEY_ID",
        ),
    },
)
def test_what_cannot_be_read_is_a_sentence(
    s3: S3Server, bucket: str, address: str, changes: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        facts(address.format(id=bucket), {**s3.environment, **changes})


def test_an_unknown_scheme_is_refused(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "model.yaml"
    spec.write_text(json.dumps(document({})))
    assert main(["plan", "-f", str(spec), "--checkpoint", f"gs://{folder}"]) != 0
    assert "expected a directory, hf://OWNER/NAME@REVISION or s3://" in capsys.readouterr().err
