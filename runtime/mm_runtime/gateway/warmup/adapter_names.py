"""Which adapters of a running model have a name: those that the engine has answered with.

The engine loads what the store's document lists; a name is given out after a request with the
adapter was answered here, and taken back as soon as the document has it no more.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mm_runtime.adapters.room import POLL_SECONDS, RETIRED_SECONDS, RoomFile

_log = logging.getLogger(__name__)

Prover = Callable[[int], Awaitable[None]]
"""Sends a request with the adapter of an id; raises unless it is answered."""

_REPLACED_SECONDS = RETIRED_SECONDS / 2
"""A name whose adapter is replaced means the former one so long, unless the new one answers before:
the engine keeps it for twice the time."""


class AdapterNames:
    """The names of a model's adapters, as they come and go."""

    def __init__(
        self,
        folder: Path,
        names: dict[str, int],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Follow the document of a folder.

        Args:
            folder: of the model's adapters in the store.
            names: name -> id, as the gateway knows them; changed in place.
            clock: monotonic, in seconds.
        """
        self._file, self._names, self._clock = RoomFile(folder), names, clock
        self._replaced: dict[str, float] = {}
        self._said: dict[int, str] = {}

    async def watch(self, prove: Prover) -> None:
        """Follow the document, for ever."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.sync(prove)
            except Exception:  # noqa: BLE001 (the next look may succeed)
                _log.exception("the adapters of the store could not be followed; tried again")

    async def sync(self, prove: Prover) -> None:
        """Take names back, then give out those that are answered."""
        found = await asyncio.to_thread(self._file.read)
        if found is None:
            return
        wanted = {one.name: one.uid for one in found.adapters}
        self._said = {uid: said for uid, said in self._said.items() if uid in wanted.values()}
        self._take_back(wanted)
        for name, uid in wanted.items():
            if self._names.get(name) == uid:
                continue
            try:
                await prove(uid)
            except Exception as error:  # noqa: BLE001 (whatever it is, the name is not known yet)
                if self._said.get(uid) != str(error):
                    _log.info("adapter %s is not answered yet: %s", name, error)
                self._said[uid] = str(error)
            else:
                self._names[name] = uid
                self._replaced.pop(name, None)
                self._said.pop(uid, None)
                _log.info("adapter %s, uid %d, is served", name, uid)

    def _take_back(self, wanted: dict[str, int]) -> None:
        now = self._clock()
        for name, uid in tuple(self._names.items()):
            if wanted.get(name) == uid:
                self._replaced.pop(name, None)
                continue
            since = self._replaced.setdefault(name, now)
            if name not in wanted or now - since >= _REPLACED_SECONDS:
                del self._names[name], self._replaced[name]
                _log.info("adapter %s, uid %d, is no longer served", name, uid)
