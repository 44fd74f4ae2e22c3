"""Names of LoRA adapters at a running gateway: known where they are answered, and no longer."""

from pathlib import Path

import pytest

from mm_api.documents.adapter_room import ADAPTERS_FILE, LoraRoom, RoomAdapter, RoomAdapters
from mm_runtime.adapters.room import RETIRED_SECONDS, room_folder
from mm_runtime.gateway.warmup.adapter_names import AdapterNames
from mm_runtime.gateway.wiring import build_gateway
from support.gateways import MODEL, serve, toy_manifest, toy_serving, write_processor
from support.scripted_engine import ScriptedEngine


class Site:
    """A document, an engine that has some adapters, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.names: dict[str, int] = {}
        self.loaded: set[int] = set()
        self.now = 0.0
        self._folder = folder
        self._generation = 0
        self._watched = AdapterNames(folder, self.names, clock=lambda: self.now)

    def write(self, **adapters: int) -> None:
        """Write name -> uid."""
        self._generation += 1
        listed = [
            RoomAdapter(name=name, uid=uid, source_digest="sha256:" + "0" * 64)
            for name, uid in adapters.items()
        ]
        document = RoomAdapters(generation=self._generation, adapters=listed)
        beside = self._folder / "new"
        beside.write_text(document.to_json())
        beside.rename(self._folder / ADAPTERS_FILE)

    async def look(self) -> dict[str, int]:
        """Look at the document once; return the names that are known then."""
        await self._watched.sync(self._prove)
        return dict(self.names)

    async def _prove(self, uid: int) -> None:
        if uid not in self.loaded:
            raise LookupError(f"lora_task_id {uid} is unknown")


@pytest.fixture(name="site")
def empty_site(tmp_path: Path) -> Site:
    """Return a site whose document does not exist yet."""
    return Site(tmp_path)


async def test_a_name_is_known_once_it_is_answered(site: Site) -> None:
    """The document alone is not enough: the engine comes first."""
    assert await site.look() == {}
    site.write(one=1, two=2)
    site.loaded = {2}
    assert await site.look() == {"two": 2}
    site.loaded = {1, 2}
    assert await site.look() == {"one": 1, "two": 2}


async def test_a_removed_name_goes_at_once(site: Site) -> None:
    """While the engine still has the adapter: no request arrives that it could not answer."""
    site.write(one=1, two=2)
    site.loaded = {1, 2}
    await site.look()
    site.write(two=2)
    assert await site.look() == {"two": 2}


async def test_a_replaced_name_means_one_of_both(site: Site) -> None:
    """The former adapter until the new one answers, and not longer than the engine keeps it."""
    site.write(one=1)
    site.loaded = {1}
    await site.look()
    site.write(one=7)
    assert await site.look() == {"one": 1}
    site.loaded = {1, 7}
    assert await site.look() == {"one": 7}
    site.write(one=8)
    await site.look()
    site.now += RETIRED_SECONDS - 1
    assert await site.look() == {}


async def test_a_new_pod_is_ready_with_its_names(tmp_path: Path) -> None:
    """The warm-up sends its question to each adapter of the document, under the adapter's id."""
    engine_dir = tmp_path / "engine"
    write_processor(engine_dir)
    room = LoraRoom(key="key", max_adapters=2, max_rank=8)
    folder = room_folder(engine_dir, room.key)
    folder.mkdir(parents=True)
    Site(folder).write(one=7)
    engine = ScriptedEngine()
    gateway = build_gateway(
        manifest=toy_manifest(),
        serving=toy_serving().model_copy(update={"lora_room": room}),
        engine_dir=engine_dir,
        engine=engine,
        auth_token_file=None,
    )
    async with serve(gateway):
        await gateway.warm_up.prove()
    assert gateway.warm_up.service.model.names.parents() == {MODEL: None, "one": MODEL}
    assert [one.adapter for one in engine.requests][-1] == 7


async def test_a_damaged_document_changes_nothing(site: Site, tmp_path: Path) -> None:
    """Nor does one that is missing, or endless."""
    site.write(one=1)
    site.loaded = {1}
    await site.look()
    for content in ("{", "[" * 100_000):
        (tmp_path / ADAPTERS_FILE).write_text(content)
        assert await site.look() == {"one": 1}
    (tmp_path / ADAPTERS_FILE).unlink()
    assert await site.look() == {"one": 1}
