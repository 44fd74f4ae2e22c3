"""Adapters of running models in the engine: within their room, and until their last request."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from mm_api.documents.adapter_room import (
    ADAPTERS_FILE,
    LoraRoom,
    RoomAdapter,
    RoomAdapters,
    adapter_uid,
)
from mm_runtime.adapters.room import RETIRED_SECONDS
from mm_runtime.reference_engine.adapters import AdapterFolder
from mm_runtime.reference_engine.room import REFUSED_SECONDS, AdapterRoom
from mm_runtime.sources.identity import source_digest
from support.gateways import toy_manifest
from support.lora_adapters import LLAMA, pair, write_adapter

FACTS = toy_manifest().plan.facts


class Layers:
    """What was put into the layers of a model; in place of an engine and of its adapters."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.used: set[int] = set()

    def read(self, adapter: AdapterFolder) -> int:
        """Return what `add` takes."""
        return adapter.uid

    def add(self, uid: int) -> None:
        """Put an adapter in."""
        self.held.add(uid)

    def remove(self, uid: int) -> None:
        """Take an adapter out."""
        self.held.remove(uid)

    def serves_with(self, uid: int) -> bool:
        """Return whether a request uses it."""
        return uid in self.used

    def between_passes(self, work: Callable[[], None]) -> "Future[None]":
        """Do it at once."""
        future: Future[None] = Future()
        work()
        future.set_result(None)
        return future


class Site:
    """A room for one adapter of rank 8, its folder in the store, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.layers, self.now = folder, Layers(), 0.0
        both = cast("Any", self.layers)
        room = LoraRoom(key="key", max_adapters=1, max_rank=8)
        self.room = AdapterRoom(folder, room, FACTS, both, both, clock=lambda: self.now)

    def adapter(self, name: str, rank: int = 4) -> RoomAdapter:
        """Write the files of an adapter; return its entry."""
        text, work = FACTS.text, self.folder / name
        heads = text.attention_heads * text.head_size
        module = "self_attn.q_proj"
        tensors = pair(LLAMA, rank=rank, source=text.hidden_size, target=heads, module=module)
        digest = source_digest(write_adapter(work, tensors, rank=rank))
        uid = adapter_uid(name, digest)
        work.rename(self.folder / str(uid))
        return RoomAdapter(name=name, uid=uid, source_digest=digest)

    def write(self, *adapters: RoomAdapter) -> None:
        """Write the document, and let the engine look."""
        beside = self.folder / "new"
        beside.write_text(RoomAdapters(generation=1, adapters=list(adapters)).to_json())
        beside.rename(self.folder / ADAPTERS_FILE)
        self.room.sync()


@pytest.fixture(name="site")
def empty_site(tmp_path: Path) -> Site:
    """Return a room with nothing in it."""
    return Site(tmp_path)


def test_a_removed_adapter_serves_its_last_request(site: Site) -> None:
    """It stays while the gateway may send for it, and then while a request uses it."""
    one = site.adapter("one")
    site.write(one)
    assert site.room.known == {one.uid: "one"}
    site.layers.used = {one.uid}
    site.write()
    assert site.room.known == {one.uid: "one"}
    site.now += RETIRED_SECONDS
    site.room.sync()
    assert (site.layers.held, site.room.known) == ({one.uid}, {one.uid: "one"})
    site.layers.used = set()
    site.room.sync()
    assert (site.layers.held, site.room.known) == (set(), {})


def test_an_adapter_that_comes_back_stays(site: Site) -> None:
    """Its time begins again when it is removed again."""
    one = site.adapter("one")
    site.write(one)
    site.write()
    site.now += RETIRED_SECONDS - 1
    site.write(one)
    site.write()
    site.now += 1
    site.room.sync()
    assert site.room.known == {one.uid: "one"}


def test_a_full_room_takes_no_more(site: Site) -> None:
    """The next one waits until a place is free, whatever the document says."""
    one, two = site.adapter("one"), site.adapter("two")
    site.write(one)
    site.write(two)
    assert site.layers.held == {one.uid}
    site.now += RETIRED_SECONDS
    site.room.sync()
    assert site.layers.held == {two.uid}


def test_what_memory_was_not_planned_for_stays_out(site: Site) -> None:
    """A rank above the room's."""
    site.write(site.adapter("tall", rank=16))
    assert site.layers.held == set()


def test_other_files_stay_out(site: Site) -> None:
    """A file that was changed since its digest was taken."""
    one = site.adapter("one")
    config = site.folder / str(one.uid) / "adapter_config.json"
    config.write_text(config.read_text() + " ")
    site.write(one)
    assert site.layers.held == set()


@pytest.mark.parametrize("rewritten", [False, True], ids=["after a while", "the document changes"])
def test_refused_files_are_not_read_at_each_look(
    site: Site, monkeypatch: pytest.MonkeyPatch, *, rewritten: bool
) -> None:
    """They are hashed again once the document changes, or after a while."""
    one = site.adapter("one")
    config = site.folder / str(one.uid) / "adapter_config.json"
    written = config.read_text()
    config.write_text(written + " ")
    site.write(one)
    config.write_text(written)
    with monkeypatch.context() as patched:
        patched.setattr("mm_runtime.reference_engine.room.check_room_adapter", pytest.fail)
        site.now += REFUSED_SECONDS - 1
        site.room.sync()
    if rewritten:
        site.write(one)
    else:
        site.now += 1
        site.room.sync()
    assert site.layers.held == {one.uid}
