"""Owners of what models share, written together: not once for each model that joins or leaves.

1,000 models that are created at once share one store claim. Written at each of them, the list of
owners alone would be 100 MB of requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mm_operator.cluster.cache import Address, Cache, Cached
from mm_operator.cluster.client import WritesForbiddenError
from mm_operator.cluster.intent import Intent
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

DELAY_SECONDS = 2.0
"""Owners of one object are written at most this often. A model that waits for its engine misses
nothing: it is woken when its name was written."""

FEW_OWNERS = 32
"""An object with fewer that still exist gets a new owner at once: it would go with the last of
them, and in it what the new model uses. Their list is 5 KB."""

Reference = Mapping[str, Any]


def owners_in(live: Cached) -> dict[str, Reference]:
    references = live.parse()["metadata"].get("ownerReferences") or ()
    return {owner["uid"]: owner for owner in references}


@dataclass(frozen=True, slots=True)
class Change:
    """Owners that are to come to and to go from one object with the next write of it."""

    intent: Intent
    add: Mapping[str, Reference]
    remove: frozenset[str]

    def can_wait(self, live: Cached, models: ModelCache) -> bool:
        """Return whether nothing is lost while the change is not written."""
        staying = (
            uid
            for name, uid in live.owners
            if uid not in self.remove and models.stays(Key(live.namespace, name), uid)
        )
        return not self.add or len(tuple(islice(staying, FEW_OWNERS))) == FEW_OWNERS

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)

    def then(self, later: "Change") -> "Change":
        """Return both changes as one; where they contradict each other, the later one counts."""
        add = {uid: owner for uid, owner in self.add.items() if uid not in later.remove}
        remove = self.remove - later.add.keys()
        return Change(later.intent, {**add, **later.add}, remove | later.remove)

    def applied_to(self, owners: Mapping[str, Reference]) -> dict[str, Reference]:
        both = {**owners, **self.add}
        return {uid: owner for uid, owner in both.items() if uid not in self.remove}


def change_between(live: Cached, intent: Intent) -> Change:
    there = live.owner_uids
    add = {uid: owner for uid, owner in intent.owners.items() if uid not in there}
    return Change(intent, add, intent.leavers & there)


@dataclass(slots=True, eq=False)
class OwnerWriter:
    """Collects changes of owners and writes them after a delay.

    `same_content`: whether a live object still is what an intent says, owners aside. `send`:
    applies an intent that must still be at a version.
    """

    cache: Cache
    models: ModelCache
    same_content: Callable[[Cached, Intent], bool]
    send: Callable[[Intent, int], Awaitable[None]]
    wake: Callable[[Key], None]
    delay_seconds: float = DELAY_SECONDS
    _waiting: dict[Address, Change] = field(default_factory=dict, init=False)
    _due: dict[Address, asyncio.Event] = field(default_factory=dict, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.models.on_removal = self._model_gone

    def defer(self, address: Address, change: Change, live: Cached) -> bool:
        """Take a change that can wait, else return False; others are written together with it."""
        if not change.can_wait(live, self.models):
            return False
        known = self._waiting.get(address)
        self._waiting[address] = known.then(change) if known else change
        if known is None:
            self._due[address] = asyncio.Event()
            task = asyncio.create_task(self._flush(address), name=f"owners of {address[2]}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def close(self) -> None:
        """Drop what waits: the next leader finds and writes it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _model_gone(self, key: Key) -> None:
        """Write at once what can no longer wait, since a model has gone."""
        for address, change in self._waiting.items():
            live = self.cache.find(*address) if address[1] == key.namespace else None
            if live is not None and not change.can_wait(live, self.models):
                self._due[address].set()

    async def _flush(self, address: Address) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._due[address].wait(), self.delay_seconds)
        del self._due[address]
        change, live = self._waiting.pop(address), self.cache.find(*address)
        if live is not None and self.same_content(live, change.intent):
            # The content must be what is there: an older intent would take back what a sibling
            # recorded meanwhile.
            owners = change.applied_to(owners_in(live))
            try:
                await self.send(change.intent.with_owners(owners), live.version)
            except WritesForbiddenError:
                pass  # the models woken below defer their owners again, or the next leader does
            except ClusterError as error:
                _LOG.warning("owners of %s %s were not written: %s", address[0], address[2], error)
        for owner in change.add.values():
            self.wake(Key(address[1], owner["name"]))
