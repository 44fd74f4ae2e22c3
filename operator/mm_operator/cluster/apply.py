"""Server-side apply, the only one: one field manager, forced, skipped when it would change nothing.

Why skip: an apply that changes nothing still costs a request, and at times bumps the resource
version (kubernetes/kubernetes #131175), which wakes the reconcile that sent it.

Error texts hold no generated names: they become conditions, and a condition that changes with every
attempt would write for ever.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mm_api import labels
from mm_api.conditions import Reason
from mm_operator.cluster.cache import Address, Cache, Cached
from mm_operator.cluster.client import Client
from mm_operator.cluster.covers import covers
from mm_operator.cluster.intent import Intent, make_intent
from mm_operator.cluster.resources import BY_KIND
from mm_operator.errors import ClusterError
from mm_operator.model import Outcome, Ref, StageError

_LOG = logging.getLogger(__name__)

OWNERS_DELAY_SECONDS = 2.0
"""Owners of a shared object are written at most this often. 1,000 models that are created at once
share one store claim: written at each, its list of owners alone would be 100 MB of requests."""


@dataclass(frozen=True, slots=True)
class _Deferred:
    """Owners of one object that are to come and to go with the next write of it."""

    intent: Intent
    add: Mapping[str, Mapping[str, Any]]
    remove: frozenset[str]


class Applied:
    """What one round of applies did, as far as it came."""

    def __init__(self) -> None:
        self.applied: list[Ref] = []
        self.changed: list[Ref] = []
        self.errors: list[StageError] = []

    def outcome(self, *, deleted: Iterable[Ref] = (), errors: Iterable[StageError] = ()) -> Outcome:
        """Return what was done, with what pruning did afterwards."""
        return Outcome(
            applied=tuple(self.applied),
            changed=tuple(self.changed),
            deleted=tuple(deleted),
            errors=(*self.errors, *errors),
        )


class Applier:
    """Applies objects in rank order.

    Args:
        client: sends the requests.
        cache: what is there; the answers to our own writes go into it at once.
        on_deferred_error: told of the intent when a delayed write of owners failed.
        owners_delay_seconds: see `OWNERS_DELAY_SECONDS`.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        on_deferred_error: Callable[[Intent], None] = lambda _intent: None,
        owners_delay_seconds: float = OWNERS_DELAY_SECONDS,
    ) -> None:
        self._client = client
        self.cache = cache
        self._on_deferred_error = on_deferred_error
        self._delay = owners_delay_seconds
        self._known: dict[Address, tuple[int, str]] = {}
        self._deferred: dict[Address, _Deferred] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, documents: Iterable[Mapping[str, Any]]) -> Applied:
        """Apply objects, those that others refer to first; stop at the first refusal.

        What comes later refers to what was refused: without its store claim a Job would only wait.
        """
        done = Applied()
        intents = sorted(
            (make_intent(document) for document in documents),
            key=lambda intent: BY_KIND[intent.kind].rank,
        )
        for intent in intents:
            ref = Ref(intent.kind, intent.name)
            try:
                changed = await self._apply_one(intent)
            except ClusterError as error:
                done.errors.append(stage_error("apply", error))
                break
            done.applied.append(ref)
            if changed:
                done.changed.append(ref)
        return done

    def would_make_again(self, documents: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether something that was applied before and is gone would be made anew."""
        return any(
            address in self._known and self.cache.find(*address) is None
            for document in documents
            if (address := _address(document))
        )

    def forget_gone(self) -> None:
        """Drop what is known of objects that no longer exist."""
        for address in [known for known in self._known if self.cache.find(*known) is None]:
            del self._known[address]

    async def close(self) -> None:
        """Drop delayed writes: the next leader finds and makes them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _apply_one(self, intent: Intent) -> bool:
        address = (intent.kind, intent.namespace, intent.name)
        live = self.cache.find(*address)
        if live is None:
            self._known.pop(address, None)
            await self._send(intent)
            return True
        same_owners = intent.owners.keys() == owners_in(live).keys()
        if self._same_content(address, live, intent):
            if same_owners:
                self._deferred.pop(address, None)
                return False
            if intent.shared and self._delay:
                self._defer(address, intent, live)
                return False
        await self._send(intent)
        return True

    def _same_content(self, address: Address, live: Cached, intent: Intent) -> bool:
        """Return whether everything but the owners is as intended."""
        if self._known.get(address) == (live.version, intent.digest):
            return True
        there = live.parse()
        digest = (there["metadata"].get("annotations") or {}).get(labels.INTENT_HASH)
        wanted = {**intent.body, "metadata": {**intent.body["metadata"], "ownerReferences": []}}
        same = digest == intent.digest and covers(there, wanted)
        if same:
            self._known[address] = (live.version, intent.digest)
        return same

    async def _send(self, intent: Intent) -> None:
        resource = BY_KIND[intent.kind]
        answer = await self._client.apply(resource, intent.body, labels.FIELD_MANAGER)
        held = self.cache.put_own(intent.kind, answer)
        self._known[intent.kind, intent.namespace, intent.name] = (held.version, intent.digest)

    def _defer(self, address: Address, intent: Intent, live: Cached) -> None:
        there = owners_in(live)
        add = {uid: owner for uid, owner in intent.owners.items() if uid not in there}
        remove = there.keys() - intent.owners.keys()
        waiting = self._deferred.get(address)
        if waiting is not None:  # several models at once: what each of them changes counts
            add = {uid: owner for uid, owner in waiting.add.items() if uid not in remove} | add
            remove |= waiting.remove - add.keys()
        self._deferred[address] = _Deferred(intent, add, frozenset(remove))
        if waiting is None:
            task = asyncio.create_task(self._flush(address), name=f"owners of {intent.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _flush(self, address: Address) -> None:
        await asyncio.sleep(self._delay)
        waiting, live = self._deferred.pop(address, None), self.cache.find(*address)
        if waiting is None or live is None:
            return
        owners = {
            uid: owner
            for uid, owner in {**owners_in(live), **waiting.add}.items()
            if uid not in waiting.remove
        }
        try:
            await self._send(waiting.intent.with_owners(owners))
        except ClusterError as error:
            _LOG.warning("owners of %s %s were not written: %s", address[0], address[2], error)
            self._on_deferred_error(waiting.intent)


def owners_in(live: Cached) -> dict[str, Mapping[str, Any]]:
    """Return uid -> owner reference of a live object."""
    references = live.parse()["metadata"].get("ownerReferences") or ()
    return {owner["uid"]: owner for owner in references}


def _address(document: Mapping[str, Any]) -> Address:
    metadata = document["metadata"]
    return document["kind"], metadata["namespace"], metadata["name"]


def stage_error(stage: str, error: ClusterError) -> StageError:
    """Return an error of the API server as an observation for the status."""
    quota = error.status == 403 and "exceeded quota" in error.message  # noqa: PLR2004  # Forbidden
    reason = Reason.QUOTA_EXCEEDED if quota else Reason.CLUSTER_ERROR
    return StageError(stage, reason, str(error))
