"""`mm-runtime store` works the same on a directory and on a bucket."""

import fcntl
import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import obstore
import pytest

from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import EngineFile, EngineManifest
from mm_runtime.cli import main
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.errors import EngineBusyError, EngineCorruptError
from mm_runtime.store.bucket import BucketStore
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore, copy_engine, parse_manifest, problems
from mm_runtime.store.garbage_collection import collect
from support.build_plans import serving_plan
from support.cases import cases

WEIGHTS = "llm/model.safetensors"


def damage(
    store: EngineStore, manifest: EngineManifest, *, remove: bool = False, path: str = WEIGHTS
) -> None:
    file = next(one for one in manifest.files if one.path == path)
    complete = b"".join(store.chunks(manifest.fingerprint, file))
    flipped = bytes([complete[0] ^ 1]) + complete[1:]
    if isinstance(store, DirectoryStore):
        place = BuildPaths(store.root, manifest.fingerprint).engine / path
        place.unlink() if remove else place.write_bytes(flipped)
        return
    assert isinstance(store, BucketStore)
    key = store._key(manifest.fingerprint, "blobs", file.sha256)
    if remove:
        obstore.delete(store._client, key)
    else:
        obstore.put(store._client, key, flipped)


def test_damage_is_found(store: EngineStore, plans: list[EngineManifest]) -> None:
    assert [problems(store, one.fingerprint) for one in plans] == [[], []]
    damage(store, plans[0])
    damage(store, plans[1], remove=True)
    (flipped,), missing = (problems(store, one.fingerprint) for one in plans)
    assert WEIGHTS in flipped
    assert "sha256" in flipped
    assert missing == [f"{WEIGHTS} is missing."]
    assert store.fingerprints() == sorted(one.fingerprint for one in plans)


def test_named_engines_are_removed(
    store: EngineStore, plans: list[EngineManifest], tmp_path: Path
) -> None:
    message = tmp_path / "message"
    gone, stays = plans[0].fingerprint, plans[1].fingerprint
    arguments = ["store", "gc", "--store", str(store), "--remove", gone]
    assert main([*arguments, "--termination-log", str(message)]) == ExitCode.OK
    assert {
        "removed": [gone],
        "removedBytes": sum(file.size for file in plans[0].files),
        "kept": 1,
        "busy": [],
    } == json.loads(message.read_text())
    assert ([stays], []) == (store.fingerprints(), problems(store, stays))


def test_engine_that_is_being_built_stays(
    directory: DirectoryStore, plans: list[EngineManifest], capsys: pytest.CaptureFixture[str]
) -> None:
    """A build holds the lock of its fingerprint; the collector does not wait for it."""
    busy = plans[0].fingerprint
    with BuildPaths(directory.root, busy).lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["store", "gc", "--store", str(directory), "--remove", busy]) == ExitCode.OK
        assert [busy] == json.loads(capsys.readouterr().out)["busy"]
        with pytest.raises(EngineBusyError):
            directory.put(busy, b"", ())
    assert problems(directory, busy) == []


def test_half_an_engine_is_never_seen(
    directory: DirectoryStore, plans: list[EngineManifest]
) -> None:
    manifest = plans[0]
    first, second = manifest.files[:2]
    files = [(first, directory.chunks(manifest.fingerprint, first)), (second, iter([b"cut"]))]
    with pytest.raises(EngineCorruptError):
        directory.put(manifest.fingerprint, b"never comes here", files)
    assert problems(directory, manifest.fingerprint) == []
    assert list((directory.root / "engines" / ".work").iterdir()) == []


@pytest.mark.s3
def test_engines_are_pulled_byte_by_byte(
    bucket: BucketStore, plans: list[EngineManifest], tmp_path: Path
) -> None:
    short = plans[0].fingerprint[:8]
    pull = ["store", "pull", short, "--store", str(bucket), "--to", str(tmp_path)]
    assert (main(pull), main(pull)) == (ExitCode.OK, ExitCode.OK)
    assert problems(DirectoryStore(tmp_path), plans[0].fingerprint) == []


@pytest.mark.s3
def test_an_engine_that_was_replaced_is_not_pulled(
    bucket: BucketStore, plans: list[EngineManifest], tmp_path: Path
) -> None:
    """Entire by its own manifest is not enough: the manifest is the one that the build recorded."""
    fingerprint = plans[0].fingerprint
    pull = ["store", "pull", fingerprint, "--store", str(bucket), "--to", str(tmp_path)]
    recorded = sha256(bucket.manifest(fingerprint)).hexdigest()
    plan = tmp_path / "serving.json"
    codes = []
    for digest in ("ab" * 32, recorded):
        plan.write_text(serving_plan(fingerprint, manifest_sha256=digest).to_json())
        codes.append(main([*pull, "--serving", str(plan)]))
        assert (DirectoryStore(tmp_path).fingerprints() == []) is (digest != recorded)
    assert codes == [ExitCode.ENGINE_CORRUPT, ExitCode.OK]


@pytest.mark.s3
def test_encoders_pull_what_they_open(
    bucket: BucketStore,
    plans: list[EngineManifest],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No weights of the language model are read, damaged or not; a full pull brings them later."""
    manifest = plans[0]
    pull = ["store", "pull", manifest.fingerprint, "--store", str(bucket), "--to", str(tmp_path)]
    encoder = [*pull, "--role", "encoder"]
    damage(bucket, manifest)
    assert (main(encoder), main(encoder)) == (ExitCode.OK, ExitCode.OK)
    said = capsys.readouterr().out.splitlines()
    opened = [file for file in manifest.files if file.path != WEIGHTS]
    pulled = DirectoryStore(tmp_path)
    assert {file.path for file in opened} == pulled.sizes(manifest.fingerprint, manifest).keys()
    assert [line.partition(" ")[2] for line in said] == [
        f"{sum(file.size for file in opened)} bytes",
        "was there",
    ]
    assert problems(pulled, manifest.fingerprint) == [f"{WEIGHTS} is missing."]
    assert main(pull) == ExitCode.ENGINE_CORRUPT  # of the weights, which a server would open
    damage(bucket, manifest)  # the same bit again
    assert (main(pull), problems(pulled, manifest.fingerprint)) == (ExitCode.OK, [])


@pytest.mark.s3
def test_what_encoders_open_is_checked(
    bucket: BucketStore, plans: list[EngineManifest], tmp_path: Path
) -> None:
    manifest = plans[0]
    pull = ["store", "pull", manifest.fingerprint, "--store", str(bucket), "--role", "encoder"]
    damage(bucket, manifest, path="vision/model.onnx")
    assert main([*pull, "--to", str(tmp_path)]) == ExitCode.ENGINE_CORRUPT
    assert DirectoryStore(tmp_path).fingerprints() == []
    assert main([*pull, "--to", f"{bucket}/other"]) == ExitCode.PERMANENT


def test_damaged_engine_is_not_copied(
    store: EngineStore, plans: list[EngineManifest], tmp_path: Path
) -> None:
    damage(store, plans[0])
    target = DirectoryStore(tmp_path / "target")
    target.root.mkdir()
    with pytest.raises(EngineCorruptError, match=f"{WEIGHTS} is damaged"):
        copy_engine(store, plans[0].fingerprint, target)
    assert target.fingerprints() == []


@pytest.mark.s3
def test_two_uploads_never_mix(bucket: BucketStore, plans: list[EngineManifest]) -> None:
    """The manifest that came first counts, and every blob is named by its own bytes."""
    first = plans[0]
    later = first.model_copy(update={"versions": {"other": "1"}})
    files = [(file, bucket.chunks(first.fingerprint, file)) for file in later.files]
    bucket.put(first.fingerprint, later.to_json().encode(), files)
    kept = parse_manifest(bucket.manifest(first.fingerprint), first.fingerprint, "the bucket")
    assert (kept.versions, problems(bucket, first.fingerprint)) == ({}, [])


@pytest.mark.s3
def test_upload_of_other_bytes_leaves_no_blob(
    bucket: BucketStore, plans: list[EngineManifest]
) -> None:
    file = EngineFile(path="llm/x", size=4, sha256="0" * 64)
    with pytest.raises(EngineCorruptError, match="llm/x is damaged"):
        bucket.put(plans[0].fingerprint, b"", [(file, iter([b"abcd"]))])
    assert problems(bucket, plans[0].fingerprint) == []


def test_manifest_may_not_lead_out_of_the_engine(plans: list[EngineManifest]) -> None:
    """A path with .. in a manifest is damage, whatever wrote it."""
    evil = plans[0].files[0].model_copy(update={"path": "../../etc/passwd"})
    manifest = plans[0].model_copy(update={"files": [evil]})
    with pytest.raises(EngineCorruptError, match="lies outside of the engine"):
        parse_manifest(manifest.to_json().encode(), manifest.fingerprint, "the store")


@pytest.mark.s3
@cases(
    "changes words",
    {
        "wrong-key": ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"),
        "down": ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "connection refused"),
    },
)
def test_unreachable_bucket_says_why(
    bucket: BucketStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    changes: dict[str, str],
    words: str,
) -> None:
    monkeypatch.setattr("mm_runtime.base.buckets.RETRIES", 0)
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert main(["store", "gc", "--store", str(bucket), "--keep"]) == ExitCode.STORE_NOT_WRITABLE
    assert words in caplog.text
    assert "only-for-tests" not in caplog.text


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def sweep(store: EngineStore, keep: list[str], at: datetime) -> list[str]:
    """Collect what was not kept for a day, at some time; return what went."""
    return collect(store, at, keep=keep, unused_for=timedelta(days=1)).removed


def test_what_was_not_kept_for_long_goes(store: EngineStore, plans: list[EngineManifest]) -> None:
    """The time counts from the first sweep that did not keep an engine, whatever its age."""
    kept, other = plans[0].fingerprint, plans[1].fingerprint
    hours = [0, 23, 25]
    gone = [sweep(store, [kept], NOW + timedelta(hours=hour)) for hour in hours]
    assert gone == [[], [], [other]]
    assert store.fingerprints() == [kept]


def test_an_engine_that_is_kept_again_starts_over(
    store: EngineStore, plans: list[EngineManifest]
) -> None:
    both = [one.fingerprint for one in plans]
    gone = [
        sweep(store, keep, NOW + timedelta(hours=hour))
        for hour, keep in ((0, both[:1]), (12, both), (25, both[:1]))
    ]
    assert gone == [[], [], []]


def test_an_engine_that_was_taken_meanwhile_stays(
    store: EngineStore, plans: list[EngineManifest]
) -> None:
    """Between looking and removing a build may have found the engine: it took the note away."""
    wanted = plans[0].fingerprint
    store.note_unused(wanted, NOW)
    store.used(wanted)
    assert not store.remove_unused(wanted, NOW + timedelta(days=9))
    assert wanted in store.fingerprints()
