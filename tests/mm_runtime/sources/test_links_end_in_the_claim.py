"""Links of a checkpoint lead to files of the same claim, wherever someone points them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.documents.model_facts import InspectReason
from mm_runtime.adapters.files import copy_adapter
from mm_runtime.base import containment
from mm_runtime.errors import InspectRefusedError, SourceEscapesError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.sources.identity import source_digest, source_files
from mm_runtime.sources.origin import DirectoryOrigin, opened

Link = Callable[[Path, Path], Path]


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "mount"
    monkeypatch.setattr(containment, "_ROOTS", (root,))
    monkeypatch.setattr(containment, "_PARENTS", (tmp_path / "adapters",))
    checkpoint = root / "checkpoint"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text("{}")
    return root


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.json"
    path.write_text('{"token": "never to be copied"}')
    return path


def absolute(checkpoint: Path, secret: Path) -> Path:
    link = checkpoint / "extra.json"
    link.symlink_to(secret)
    return link


def relative(checkpoint: Path, secret: Path) -> Path:
    link = checkpoint / "extra.json"
    link.symlink_to(os.path.relpath(secret, checkpoint))
    return link


def chained(checkpoint: Path, secret: Path) -> Path:
    (checkpoint.parent / "first").symlink_to(secret)
    link = checkpoint / "extra.json"
    link.symlink_to("../first")
    return link


def of_the_process(checkpoint: Path, _: Path) -> Path:
    link = checkpoint / "extra.json"
    link.symlink_to("/proc/self/environ")
    return link


def folder(checkpoint: Path, secret: Path) -> Path:
    (checkpoint / "llm").symlink_to(secret.parent)
    return checkpoint / "llm" / "secret.json"


OUT = [
    pytest.param(absolute, id="absolute"),
    pytest.param(relative, id="relative"),
    pytest.param(chained, id="chained"),
    pytest.param(of_the_process, id="proc"),
    pytest.param(folder, id="folder"),
]


@pytest.mark.parametrize("link", OUT)
def test_a_fetch_refuses_a_link_that_leads_out(claim: Path, secret: Path, link: Link) -> None:
    named = link(claim / "checkpoint", secret)
    with pytest.raises(SourceEscapesError) as reported, opened(claim / "checkpoint"):
        pass

    assert str(reported.value).startswith(f"{named} is a link, or lies behind one, that leads out")


@pytest.mark.parametrize("link", OUT)
def test_inspect_refuses_it_before_anything_is_read(claim: Path, secret: Path, link: Link) -> None:
    named = link(claim / "checkpoint", secret)
    with pytest.raises(InspectRefusedError) as reported:
        inspect(claim / "checkpoint", InspectOptions())

    assert reported.value.reason == InspectReason.SOURCE_NOT_FOUND
    assert named.name in reported.value.message


def test_a_checkpoint_behind_a_link_is_refused(claim: Path, secret: Path) -> None:
    (claim / "elsewhere").symlink_to(secret.parent)
    with pytest.raises(InspectRefusedError, match="leads out of the claim"):
        inspect(claim / "elsewhere", InspectOptions())


def test_a_link_that_changes_after_the_check_copies_nothing(
    claim: Path, secret: Path, tmp_path: Path
) -> None:
    """What was opened is compared: the moment between the look and the copy is of no use."""
    file = claim / "checkpoint" / "config.json"
    origin = DirectoryOrigin(source_files(claim / "checkpoint"))
    file.unlink()
    file.symlink_to(secret)

    with pytest.raises(SourceEscapesError):
        origin.copy("config.json", tmp_path / "copy.json")
    with pytest.raises(SourceEscapesError):
        origin.digest()
    assert not (tmp_path / "copy.json").exists()


def test_a_pipe_in_the_place_of_a_file_waits_for_no_writer(claim: Path, tmp_path: Path) -> None:
    """A pipe has no writer; a build that waited for one would hold its pod."""
    file = claim / "checkpoint" / "config.json"
    origin = DirectoryOrigin(source_files(claim / "checkpoint"))
    file.unlink()
    os.mkfifo(file)

    with pytest.raises(SourceEscapesError, match="is not a file"):
        origin.copy("config.json", tmp_path / "copy.json")


def test_an_adapter_is_no_way_out(claim: Path, secret: Path, tmp_path: Path) -> None:
    (claim / "adapter.tar").symlink_to(secret)
    with pytest.raises(SourceEscapesError):
        copy_adapter("a", str(claim / "adapter.tar"), tmp_path / "copied")


def test_the_claims_of_adapters_are_apart(tmp_path: Path, claim: Path) -> None:
    mine, other = tmp_path / "adapters" / "mine", tmp_path / "adapters" / "other"
    for place in (mine, other):
        place.mkdir(parents=True)
    (other / "adapter_config.json").write_text("{}")
    (mine / "adapter_config.json").symlink_to("../other/adapter_config.json")

    assert set(source_files(other)) == {"adapter_config.json"}
    with pytest.raises(SourceEscapesError):
        source_files(mine)
    assert claim.exists()


def test_the_links_of_the_hubs_cache_remain(claim: Path) -> None:
    """It keeps contents by digest, and a snapshot links them: within the claim."""
    repository = claim / "models--org--name"
    blob = repository / "blobs" / "0123"
    snapshot = repository / "snapshots" / ("a" * 40)
    for place in (blob.parent, snapshot):
        place.mkdir(parents=True)
    blob.write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/0123")

    assert set(source_files(snapshot)) == {"config.json"}
    assert source_digest(snapshot) == source_digest(claim / "checkpoint")


def test_outside_of_claims_links_are_the_users_own(tmp_path: Path, secret: Path) -> None:
    """Who inspects a folder on an own machine reads own files."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").symlink_to(secret)

    assert set(source_files(tmp_path / "own")) == {"config.json"}
