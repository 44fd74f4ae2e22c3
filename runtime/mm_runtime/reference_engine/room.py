"""Fills a model's room with the adapters of the store while it serves, and empties it again.

An adapter is read and checked in a thread of its own and put into its layers between two passes.
One that the document has no more serves on until no request uses it, and for as long as the gateway
may not have taken its name back. Until then it holds its place in the room.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mm_api.documents.adapter_room import LoraRoom, RoomAdapter, RoomAdapters
from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.room import (
    POLL_SECONDS,
    RETIRED_SECONDS,
    RoomFile,
    check_rank,
    check_room_adapter,
)
from mm_runtime.errors import PermanentError
from mm_runtime.reference_engine.adapters import AdapterFolder, Adapters
from mm_runtime.reference_engine.engine import Engine

logger = logging.getLogger(__name__)

REFUSED_SECONDS = 60.0
"""Until files that were refused are read again, unless the document changes: to check them is to
hash them, and the store may be slow."""

_BETWEEN_SECONDS = 60.0
"""For a pass to end and the layers to change: a pass of the longest prompt takes seconds."""


class AdapterRoom:
    """The adapters of one engine that come and go."""

    def __init__(
        self,
        folder: Path,
        room: LoraRoom,
        facts: ModelFacts,
        engine: Engine,
        adapters: Adapters,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is loaded yet.

        Args:
            folder: of the model's adapters in the store.
            room: what the pods' memory was planned for.
            facts: of the checkpoint.
            engine: whose thread owns the model.
            adapters: the model's, empty.
            clock: monotonic, in seconds.
        """
        self._folder, self._room, self._facts = folder, room, facts
        self._engine, self._adapters, self._clock = engine, adapters, clock
        self._file = RoomFile(folder)
        self._retired: dict[int, float] = {}
        """Id of an adapter that the document has no more -> when that was seen."""

        self._refused: dict[int, str] = {}
        """Id -> why it is not loaded, as it was logged."""

        self._again: dict[int, float] = {}
        """Id of an adapter whose files were refused -> when they are read again."""

        self._found: RoomAdapters | None = None
        self._known: Mapping[int, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="adapter-room", daemon=True)

    @property
    def known(self) -> Mapping[int, str]:
        """Id of each adapter that answers -> its name."""
        return self._known

    def start(self) -> None:
        """Load what is there, then follow the document. The engine's thread must run."""
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_BETWEEN_SECONDS)

    def sync(self) -> None:
        """Make the room hold what the document says, as far as there is room."""
        found = self._file.read()
        if found is None:
            return
        if found is not self._found:
            self._found, self._again = found, {}
        wanted = {one.uid: one for one in found.adapters}
        self._refused = {uid: why for uid, why in self._refused.items() if uid in wanted}
        self._retire(wanted)
        for uid, one in wanted.items():
            if uid not in self._known:
                self._load(one)

    def _retire(self, wanted: Mapping[int, RoomAdapter]) -> None:
        now = self._clock()
        self._retired = {
            uid: self._retired.get(uid, now) for uid in self._known if uid not in wanted
        }
        for uid, since in self._retired.items():
            if now - since >= RETIRED_SECONDS:
                self._between(partial(self._unload, uid))

    def _unload(self, uid: int) -> None:
        """Take an adapter out, unless a request uses it: then it is tried again."""
        if self._engine.serves_with(uid):
            return
        name = self._known[uid]
        self._known = {one: known for one, known in self._known.items() if one != uid}
        self._adapters.remove(uid)
        logger.info("LoRA adapter %s, uid %d, is removed", name, uid)

    def _load(self, adapter: RoomAdapter) -> None:
        if len(self._known) >= self._room.max_adapters:
            most = self._room.max_adapters
            self._refuse(adapter, f"the room is full: it holds {most} adapters")
            return
        if self._clock() < self._again.get(adapter.uid, 0.0):
            return
        folder = self._folder / str(adapter.uid)
        try:
            rank = check_room_adapter(adapter, folder, self._facts)
            check_rank(adapter.name, rank, self._room.max_rank)
            read = self._adapters.read(
                AdapterFolder(adapter.uid, adapter.name, folder, self._facts)
            )
            began = self._clock()
            self._between(partial(self._adapters.add, read))
        except (OSError, ValueError, PermanentError) as error:
            self._again[adapter.uid] = self._clock() + REFUSED_SECONDS
            self._refuse(adapter, str(error))
            return
        self._refused.pop(adapter.uid, None)
        self._known = {**self._known, adapter.uid: adapter.name}
        took = self._clock() - began
        logger.info("LoRA adapter %s, uid %d, is loaded: %.3f s", adapter.name, adapter.uid, took)

    def _refuse(self, adapter: RoomAdapter, why: str) -> None:
        """Log why an adapter is not loaded, once; it is tried again."""
        if self._refused.get(adapter.uid) != why:
            logger.warning("LoRA adapter %s is not loaded: %s", adapter.name, why)
        self._refused[adapter.uid] = why

    def _between(self, work: Callable[[], None]) -> None:
        self._engine.between_passes(work).result(_BETWEEN_SECONDS)

    def _watch(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            self.sync()
        except Exception:
            logger.exception("the adapters of the store could not be followed; tried again")
