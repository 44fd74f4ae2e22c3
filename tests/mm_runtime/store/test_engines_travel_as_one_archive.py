"""`store export` writes an OCI image layout; `store import` takes it back, checked byte by byte."""

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.cli import main
from mm_runtime.errors import EngineCorruptError, PermanentError
from mm_runtime.store.archive import ARTIFACT, TITLE, import_
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore, problems
from support.cases import cases


@pytest.fixture
def archive(directory: DirectoryStore, tmp_path: Path) -> Path:
    """Both engines in one archive."""
    path = tmp_path / "engines.tar"
    where = ["--store", str(directory), "--archive", str(path)]
    assert main(["store", "export", *directory.fingerprints(), *where]) == ExitCode.OK
    return path


def empty(tmp_path: Path) -> DirectoryStore:
    root = tmp_path / "empty"
    root.mkdir()
    return DirectoryStore(root)


def test_both_engines_arrive_complete(
    archive: Path, tmp_path: Path, plans: list[EngineManifest], capsys: pytest.CaptureFixture[str]
) -> None:
    """Imported engines verify; importing again finds them there."""
    target = empty(tmp_path)
    command = ["store", "import", "--archive", str(archive), "--store", str(target)]
    assert main(command) == ExitCode.OK
    assert [problems(target, one.fingerprint) for one in plans] == [[], []]
    capsys.readouterr()
    assert main(command) == ExitCode.OK
    assert capsys.readouterr().out.count("was there") == 2


@pytest.mark.s3
def test_archive_goes_into_a_bucket(
    archive: Path, bucket: EngineStore, plans: list[EngineManifest]
) -> None:
    bucket.remove(plans[0].fingerprint)
    assert {(plans[0].fingerprint, True), (plans[1].fingerprint, False)} == set(
        import_(bucket, archive)
    )
    assert problems(bucket, plans[0].fingerprint) == []


def test_layout_is_that_of_oci(archive: Path, plans: list[EngineManifest]) -> None:
    """Layout file, index, artifacts with titled layers; every blob has the digest of its name."""
    with tarfile.open(archive) as tar:

        def content(name: str) -> bytes:
            reader = tar.extractfile(name)
            assert reader is not None
            return reader.read()

        names = tar.getnames()
        assert json.loads(content("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        index = json.loads(content("index.json"))
        blobs = [name for name in names if name.startswith("blobs/sha256/")]
        assert len(set(names)) == len(names)
        for name in blobs:
            assert name.rpartition("/")[2] == hashlib.sha256(content(name)).hexdigest()
        assert [one["artifactType"] for one in index["manifests"]] == [ARTIFACT] * 2
        digest = index["manifests"][0]["digest"].removeprefix("sha256:")
        image = json.loads(content(f"blobs/sha256/{digest}"))
    titles = {layer["annotations"][TITLE] for layer in image["layers"]}
    assert {"manifest.json", *(file.path for file in plans[0].files)} == titles


def flipped(path: Path, plans: list[EngineManifest]) -> None:
    """Flip a byte of the largest blob."""
    file = max(plans[0].files, key=lambda one: one.size)
    with tarfile.open(path) as tar:
        start = tar.getmember(f"blobs/sha256/{file.sha256}").offset_data
    with path.open("r+b") as archive:
        archive.seek(start)
        archive.write(b"\xff")


def cut(path: Path, _: list[EngineManifest]) -> None:
    with path.open("r+b") as archive:
        archive.truncate(path.stat().st_size // 3)


@cases("harm", {"flipped": flipped, "cut": cut})
def test_damaged_archive_brings_nothing(
    archive: Path,
    tmp_path: Path,
    plans: list[EngineManifest],
    harm: Callable[[Path, list[EngineManifest]], None],
) -> None:
    harm(archive, plans)
    target = empty(tmp_path)
    with pytest.raises(EngineCorruptError):
        import_(target, archive)
    assert target.fingerprints() == []


def test_other_archives_are_refused(tmp_path: Path) -> None:
    """A tar that is no export is reported so; so is a file that is no tar, and none at all."""
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as tar:
        member = tarfile.TarInfo("index.json")
        member.size = 2
        (tmp_path / "index").write_bytes(b"{}")
        with (tmp_path / "index").open("rb") as reader:
            tar.addfile(member, reader)
    plain = tmp_path / "plain"
    plain.write_text("not a tar")
    target = empty(tmp_path)
    for path, words in (
        (other, "holds no engine"),
        (plain, "is not a tar archive"),
        (tmp_path / "absent", "does not exist"),
    ):
        with pytest.raises(PermanentError, match=words):
            import_(target, path)


def test_damaged_engine_is_not_exported(
    directory: DirectoryStore, tmp_path: Path, plans: list[EngineManifest]
) -> None:
    """No archive is left, not even a part of one."""
    engine = directory.root / "engines" / plans[0].fingerprint
    (engine / "vision/model.onnx").write_bytes(b"engine X")
    path = tmp_path / "engines.tar"
    where = ["--store", str(directory), "--archive", str(path)]
    assert main(["store", "export", plans[0].fingerprint, *where]) == ExitCode.ENGINE_CORRUPT
    assert list(tmp_path.glob("*engines.tar*")) == []
