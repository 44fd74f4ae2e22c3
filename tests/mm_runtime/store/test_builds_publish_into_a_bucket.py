"""A build with a store in a bucket publishes the engine complete, or not at all."""

import subprocess
import sys
import uuid
from pathlib import Path

import obstore
import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult
from mm_runtime.cli import main
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.sources.address import BucketAddress
from mm_runtime.store.bucket import BucketStore
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import parse_manifest, problems
from support.build_plans import build_plan
from support.build_sites import Site, text_only
from support.hollow_checkpoint import write_checkpoint
from support.s3_server import S3Server

pytestmark = pytest.mark.s3

BUILD_SECONDS = 120


@pytest.fixture
def empty_bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> BucketStore:
    name = uuid.uuid4().hex
    s3.bucket(name)
    for variable, value in s3.environment.items():
        # As the operator names them: for the store alone.
        monkeypatch.setenv(f"MM_STORE_{variable}", value)
    return BucketStore(BucketAddress(name, "engines-of/a"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    source = write_checkpoint(tmp_path / "checkpoint")
    plan = text_only(build_plan(inspect(source, InspectOptions())))
    work = tmp_path / "work"
    work.mkdir()
    return Site(source, plan, work)


def arguments(site: Site, store: BucketStore, work: Path | None = None) -> list[str]:
    where = ["--plan", str(site.plan_file), "--source", str(site.source)]
    return ["build", *where, "--store", str(store), "--work", str(work or site.store)]


def run(site: Site, store: BucketStore, tmp_path: Path) -> tuple[int, BuildResult]:
    message = tmp_path / "message"
    code = main([*arguments(site, store), "--termination-log", str(message)])
    return code, BuildResult.from_json(message.read_text())


def test_engine_is_published_complete(
    site: Site, empty_bucket: BucketStore, tmp_path: Path
) -> None:
    code, result = run(site, empty_bucket, tmp_path)
    fingerprint = site.plan.fingerprint
    assert (code, result.failure, result.reused) == (ExitCode.OK, None, False)
    assert ([fingerprint], []) == (empty_bucket.fingerprints(), problems(empty_bucket, fingerprint))
    assert DirectoryStore(site.store).fingerprints() == []
    manifest = parse_manifest(empty_bucket.manifest(fingerprint), fingerprint, "the bucket")
    assert result.stored_bytes == sum(file.size for file in manifest.files)


def test_second_build_finds_it(site: Site, empty_bucket: BucketStore, tmp_path: Path) -> None:
    _, first = run(site, empty_bucket, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Site(site.source, site.plan, elsewhere)
    code, second = run(other, empty_bucket, tmp_path)
    assert (code, second.reused, second.step_seconds) == (ExitCode.OK, True, {})
    assert first.manifest_sha256 == second.manifest_sha256
    assert list(elsewhere.iterdir()) == []


def test_damaged_engine_is_built_again(
    site: Site, empty_bucket: BucketStore, tmp_path: Path
) -> None:
    run(site, empty_bucket, tmp_path)
    fingerprint = site.plan.fingerprint
    manifest = parse_manifest(empty_bucket.manifest(fingerprint), fingerprint, "the bucket")
    file = max(manifest.files, key=lambda one: one.size)
    key = empty_bucket._key(fingerprint, "blobs", file.sha256)
    obstore.put(empty_bucket._client, key, bytes(file.size))
    assert problems(empty_bucket, fingerprint) != []
    code, result = run(site, empty_bucket, tmp_path)
    assert (code, result.reused, problems(empty_bucket, fingerprint)) == (ExitCode.OK, False, [])


def test_bucket_that_goes_away_costs_no_step(
    site: Site, empty_bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mm_runtime.store import building  # noqa: PLC0415 (the part that is kept from running)

    copy = building.copy_engine
    monkeypatch.setattr(building, "_reusable", lambda *_: False)

    def too_late(*engine: object) -> object:
        monkeypatch.setenv("MM_STORE_AWS_SECRET_ACCESS_KEY", "changed meanwhile")
        name = empty_bucket._address
        return copy(engine[0], engine[1], BucketStore(name))  # type: ignore[arg-type]

    monkeypatch.setattr(building, "copy_engine", too_late)
    code, result = run(site, empty_bucket, tmp_path)
    assert result.failure is not None
    assert (code, result.failure.reason, result.failure.step, result.failure.retryable) == (
        ExitCode.STORE_NOT_WRITABLE,
        BuildReason.STORE_NOT_WRITABLE,
        "publish",
        True,
    )
    assert [site.plan.fingerprint] == DirectoryStore(site.store).fingerprints()
    assert empty_bucket.fingerprints() == []


def test_wrong_key_is_reported_before_anything_is_built(
    site: Site, empty_bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MM_STORE_AWS_SECRET_ACCESS_KEY", "wrong")
    code, result = run(site, empty_bucket, tmp_path)
    assert result.failure is not None
    assert (code, result.failure.step) == (ExitCode.STORE_NOT_WRITABLE, "prepare")
    assert "SignatureDoesNotMatch" in result.failure.message
    assert list(site.store.iterdir()) == []


def test_two_builders_publish_one_engine(
    site: Site, empty_bucket: BucketStore, tmp_path: Path
) -> None:
    works = [tmp_path / name for name in ("one", "two")]
    runs = []
    for work in works:
        work.mkdir()
        command = [sys.executable, "-m", "mm_runtime", *arguments(site, empty_bucket, work)]
        runs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    outputs = [process.communicate(timeout=BUILD_SECONDS)[0] for process in runs]
    results = [BuildResult.from_json(output.splitlines()[-1]) for output in outputs]
    assert [result.failure for result in results] == [None, None]
    assert [process.returncode for process in runs] == [0, 0]
    assert len({result.manifest_sha256 for result in results}) == 1
    fingerprint = site.plan.fingerprint
    manifest = parse_manifest(empty_bucket.manifest(fingerprint), fingerprint, "the bucket")
    assert problems(empty_bucket, fingerprint) == []
    assert {file.sha256 for file in manifest.files} == set(empty_bucket._blobs(fingerprint))


def test_publishing_leaves_uploads_of_others_alone(
    site: Site, empty_bucket: BucketStore, tmp_path: Path
) -> None:
    """Versitygw lists an upload that still runs, and deleting it there ends that upload."""
    fingerprint = site.plan.fingerprint
    running = empty_bucket._key(fingerprint, "blobs", f".{'0' * 64}.sgwtmp.1795574421811967766")
    left = empty_bucket._key(fingerprint, "blobs", "0" * 64)
    for key in (running, left):
        obstore.put(empty_bucket._client, key, b"bytes")
    code, _ = run(site, empty_bucket, tmp_path)
    pages = obstore.list(empty_bucket._client, empty_bucket._key(fingerprint, "blobs"))
    keys = {str(item["path"]) for page in pages for item in page}
    assert (code, running in keys, left in keys) == (ExitCode.OK, True, False)


def test_parts_of_another_upload_are_not_deleted_first(
    site: Site, empty_bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A builder that starts while another one uploads keeps what is there until it publishes."""
    from mm_runtime.store import building  # noqa: PLC0415 (the part that is kept from running)

    other = empty_bucket._key(site.plan.fingerprint, "blobs", "0" * 64)
    obstore.put(empty_bucket._client, other, b"bytes")
    monkeypatch.setattr(building, "copy_engine", lambda *_: None)
    run(site, empty_bucket, tmp_path)
    assert empty_bucket._blobs(site.plan.fingerprint) == {"0" * 64: len(b"bytes")}


def test_bucket_needs_a_directory_to_work_in(
    site: Site, empty_bucket: BucketStore, caplog: pytest.LogCaptureFixture
) -> None:
    where = ["--plan", str(site.plan_file), "--source", str(site.source)]
    assert main(["build", *where, "--store", str(empty_bucket)]) == ExitCode.PERMANENT
    assert "--work" in caplog.text
