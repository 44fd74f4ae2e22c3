"""`mm-runtime adapters`: what it writes into the store beside an engine, and what it leaves."""

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.adapter_room import ADAPTERS_FILE, RoomAdapters, adapter_uid
from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.adapters.files import copy_adapter
from mm_runtime.adapters.room import room_folder
from mm_runtime.cli import main
from mm_runtime.engine_build import load_adapters
from support.gateways import toy_manifest
from support.lora_adapters import LLAMA, pair, write_adapter

KEY = "0b5e6a1c"


@pytest.fixture(name="engine")
def engine_folder(tmp_path: Path) -> Path:
    """Return the folder of an engine of which only the manifest is there."""
    manifest = toy_manifest()
    folder = tmp_path / "store" / "engines" / manifest.fingerprint
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest.to_json())
    return folder


def adapter(engine: Path, folder: Path, *, rank: int = 4) -> Path:
    """Write an adapter of the engine's first layer."""
    text = EngineManifest.from_json((engine / "manifest.json").read_bytes()).plan.facts.text
    heads = text.attention_heads * text.head_size
    tensors = pair(
        LLAMA, rank=rank, source=text.hidden_size, target=heads, module="self_attn.q_proj"
    )
    return write_adapter(folder, tensors, rank=rank)


def fill(engine: Path, adapters: Mapping[str, Path], *, generation: int, rank: int = 8) -> int:
    """Run the command; return its exit code."""
    given = [word for name, path in adapters.items() for word in ("--adapter", f"{name}={path}")]
    store = engine.parents[1]
    options = ["--store", str(store), "--fingerprint", engine.name, "--key", KEY]
    options += ["--generation", str(generation), "--max-rank", str(rank)]
    return main(["adapters", *options, *given, "--termination-log", str(store / "said")])


def document(engine: Path) -> RoomAdapters:
    """Return what pods read."""
    return RoomAdapters.from_json((room_folder(engine, KEY) / ADAPTERS_FILE).read_bytes())


def test_files_come_before_the_document(engine: Path, tmp_path: Path) -> None:
    """Each adapter in a folder named by its uid; the engine's own folder stays as it was."""
    one = adapter(engine, tmp_path / "one")
    assert fill(engine, {"one": one}, generation=2) == 0
    (found,) = document(engine).adapters
    folder = room_folder(engine, KEY) / str(found.uid)
    assert (found.name, found.uid) == ("one", adapter_uid("one", found.source_digest))
    assert {path.name for path in folder.iterdir()} == {path.name for path in one.iterdir()}
    assert [path.name for path in engine.iterdir()] == ["manifest.json"]


def test_a_uid_means_one_adapter_for_ever(engine: Path, tmp_path: Path) -> None:
    """The same files under the same name have it again; other files or another name never."""
    one, other = adapter(engine, tmp_path / "one"), adapter(engine, tmp_path / "two", rank=8)
    seen = []
    for generation, adapters in enumerate(({"a": one}, {"a": other}, {"b": one}, {"a": one})):
        assert fill(engine, adapters, generation=generation) == 0
        seen += [found.uid for found in document(engine).adapters]
    assert seen[0] == seen[3]
    assert len(set(seen)) == 3


def test_files_stay_for_one_more_run(engine: Path, tmp_path: Path) -> None:
    """A pod that still reads what has just been removed finds it."""
    assert fill(engine, {"one": adapter(engine, tmp_path / "one")}, generation=1) == 0
    (one,) = document(engine).adapters
    folder = room_folder(engine, KEY) / str(one.uid)
    assert fill(engine, {}, generation=2) == 0
    assert (document(engine).adapters, folder.exists()) == ([], True)
    assert fill(engine, {}, generation=3) == 0
    assert not folder.exists()


def test_an_earlier_job_replaces_nothing(engine: Path, tmp_path: Path) -> None:
    """A Job that was late ends well and leaves the document of the later one."""
    assert fill(engine, {}, generation=7) == 0
    assert fill(engine, {"one": adapter(engine, tmp_path / "one")}, generation=6) == 0
    assert document(engine) == RoomAdapters(generation=7)


@pytest.mark.parametrize(
    ("rank", "broken", "words"),
    [
        pytest.param(16, False, "has rank 16, and pods have room for 8", id="rank"),
        pytest.param(4, True, "has no adapter_model.safetensors", id="incomplete"),
    ],
)
def test_a_refused_adapter_leaves_the_document(
    engine: Path, tmp_path: Path, rank: int, *, broken: bool, words: str
) -> None:
    """Nothing of a list is served whose one adapter cannot be; the message is the report."""
    good, bad = adapter(engine, tmp_path / "good"), adapter(engine, tmp_path / "bad", rank=rank)
    if broken:
        (bad / "adapter_model.safetensors").unlink()
    assert fill(engine, {"good": good}, generation=1) == 0
    before = document(engine)
    assert fill(engine, {"good": good, "bad": bad}, generation=2) == 3
    assert words in (engine.parents[1] / "said").read_text()
    assert document(engine) == before
    left = {path.name for path in room_folder(engine, KEY).iterdir()}
    assert left == {ADAPTERS_FILE, ".lock", str(before.adapters[0].uid)}


def test_a_damaged_document_is_replaced(engine: Path) -> None:
    """Whatever lies there."""
    assert fill(engine, {}, generation=1) == 0
    (room_folder(engine, KEY) / ADAPTERS_FILE).write_text(json.dumps({"generation": "many"}))
    assert fill(engine, {}, generation=2) == 0
    assert document(engine) == RoomAdapters(generation=2)


def test_damaged_files_are_copied_again(engine: Path, tmp_path: Path) -> None:
    """Pods refuse them; the next Job repairs them under the same uid."""
    one = adapter(engine, tmp_path / "one")
    assert fill(engine, {"one": one}, generation=1) == 0
    (found,) = document(engine).adapters
    weights = room_folder(engine, KEY) / str(found.uid) / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert fill(engine, {"one": one}, generation=2) == 0
    assert weights.read_bytes() == (one / "adapter_model.safetensors").read_bytes()
    assert document(engine).adapters == [found]
    left = {path.name for path in room_folder(engine, KEY).iterdir()}
    assert left == {ADAPTERS_FILE, ".lock", str(found.uid)}


def test_adapters_go_with_their_engine(engine: Path, tmp_path: Path) -> None:
    """A store that is swept keeps nothing of an engine."""
    assert fill(engine, {"one": adapter(engine, tmp_path / "one")}, generation=1) == 0
    gone = ["store", "gc", "--store", str(engine.parents[1]), "--remove", engine.name]
    assert main(gone) == 0
    assert not room_folder(engine, KEY).parent.exists()


def test_a_stopped_job_writes_no_document(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later one is on its way: what was served stays."""
    one = adapter(engine, tmp_path / "one")
    assert fill(engine, {}, generation=1) == 0
    monkeypatch.setattr(load_adapters, "copy_adapter", _stopped(copy_adapter))
    assert fill(engine, {"one": one}, generation=2) == 143
    assert document(engine) == RoomAdapters(generation=1)


def _stopped(copy: Callable[..., str]) -> Callable[..., str]:
    """Return what copies an adapter while the kubelet ends the pod."""

    def copying(*given: Any, **named: Any) -> str:
        signal.raise_signal(signal.SIGTERM)
        return copy(*given, **named)

    return copying
