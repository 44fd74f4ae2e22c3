"""Server-side apply, the only one: one field manager, forced, skipped when it would change nothing.

Why skip: an apply that changes nothing still costs a request, and at times bumps the resource
version all the same (kubernetes/kubernetes #131175), which wakes the reconcile that sent it.

What models share is applied only at the version that the decision saw, because each of them holds
a part of the truth. What is not ours is never applied to: a name that the cache does not know is
read first, and one that it knows is applied to that very object, by its uid.

Error texts hold no generated names: they become conditions, and a condition that changes with every
attempt would write for ever.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm_api import labels
from mm_api.conditions import Reason
from mm_operator.cluster.cache import Address, Cache, Cached
from mm_operator.cluster.client import Client
from mm_operator.cluster.intent import Intent, make_intent
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.owners import OwnerWriter, change_between, owners_in
from mm_operator.cluster.ownership import is_in_sync, is_ours, why_taken
from mm_operator.cluster.refusals import growth_refused, stage_error
from mm_operator.cluster.resources import BY_KIND
from mm_operator.errors import ClusterError
from mm_operator.model import Outcome, Ref, StageError

CONFLICT = 409


class OutdatedError(Exception):
    """Another model changed a shared object since this one's decision: decide again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An intent and the version of the object that the decision for it saw; 0 for none."""

    intent: Intent
    seen: int

    @property
    def address(self) -> Address:
        return self.intent.kind, self.intent.namespace, self.intent.name


class Applied:
    """What one round of applies did, as far as it came."""

    def __init__(self) -> None:
        self.applied: list[Ref] = []
        self.changed: list[Ref] = []
        self.errors: list[StageError] = []

    def outcome(self, *, deleted: Iterable[Ref] = (), errors: Iterable[StageError] = ()) -> Outcome:
        return Outcome(
            applied=tuple(self.applied),
            changed=tuple(self.changed),
            deleted=tuple(deleted),
            errors=(*self.errors, *errors),
        )


class Applier:
    """Applies objects in rank order; the answers to our own writes go into the cache at once."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        models: ModelCache,
        *,
        wake: Callable[[Key], None] = lambda _key: None,
    ) -> None:
        self._client = client
        self.cache = cache
        self._known: dict[Address, tuple[int, str]] = {}
        self._owners = OwnerWriter(
            cache,
            models,
            same_content=self._same_content,
            send=lambda intent, version: self._send(intent, None, version),
            wake=wake,
        )

    def prepare(self, documents: Iterable[Mapping[str, Any]]) -> tuple[Prepared, ...]:
        """Return what to apply, those that others refer to first.

        Called right after the decision, before anything is awaited: the versions noted here are
        those that the decision saw.
        """
        intents = sorted(map(make_intent, documents), key=lambda intent: BY_KIND[intent.kind].rank)
        found = (self.cache.find(one.kind, one.namespace, one.name) for one in intents)
        return tuple(
            Prepared(intent, live.version if live else 0)
            for intent, live in zip(intents, found, strict=True)
        )

    async def apply(self, prepared: Sequence[Prepared], by: Key) -> Applied:
        """Apply the children of a model and stop at the first refusal.

        What comes later refers to what was refused: without its store claim a Job would only wait.
        Nothing is applied while the name of any child is taken by an object that is not ours.

        Raises:
            OutdatedError: the decision was made from something that is no longer so.
        """
        done = Applied()
        try:
            uids = await self._uids(prepared, done)
        except ClusterError as error:
            done.errors.append(stage_error("apply", error))
        if done.errors:
            return done
        for item in prepared:
            ref = Ref(item.intent.kind, item.intent.name)
            try:
                changed = await self._apply_one(item, by, uids.get(item.address, ""))
            except ClusterError as error:
                live = self.cache.find(*item.address)
                grown = growth_refused(error, item.intent.content(), live.parse() if live else None)
                done.errors.append(grown or stage_error("apply", error))
                break
            done.applied.append(ref)
            if changed:
                done.changed.append(ref)
        return done

    def would_make_again(self, prepared: Iterable[Prepared]) -> bool:
        """Return whether something that was applied before and is gone would be created again."""
        return any(item.seen == 0 and item.address in self._known for item in prepared)

    def forget_gone(self) -> None:
        for address in [known for known in self._known if self.cache.find(*known) is None]:
            del self._known[address]

    async def close(self) -> None:
        await self._owners.close()

    async def _uids(self, prepared: Sequence[Prepared], done: Applied) -> dict[Address, str]:
        """Return the uid of each existing object that would change and note foreign ones."""
        unseen = [item for item in prepared if self.cache.find(*item.address) is None]
        found = await asyncio.gather(*(self._read(item.intent) for item in unseen))
        there = {item.address: one for item, one in zip(unseen, found, strict=True) if one}
        uids: dict[Address, str] = {}
        for item in prepared:
            live = self.cache.find(*item.address)
            if live is not None and self._same_content(live, item.intent):
                continue
            metadata = live.parse()["metadata"] if live else there.get(item.address)
            if metadata is None:
                continue
            if not is_ours(metadata, item.intent):
                message = why_taken(metadata, item.intent)
                done.errors.append(StageError("apply", Reason.NAME_TAKEN, message))
            elif live is None and item.intent.shared:
                await self._label_again(item.intent)
                raise OutdatedError
            uids[item.address] = metadata["uid"]
        return uids

    async def _read(self, intent: Intent) -> Mapping[str, Any] | None:
        resource = BY_KIND[intent.kind]
        found = await self._client.get(resource, intent.namespace, intent.name, metadata_only=True)
        return found["metadata"] if found else None

    async def _label_again(self, intent: Intent) -> None:
        """Make an object visible again that models share: what it holds is decided with."""
        mark = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE}
        answer = await self._client.merge(
            BY_KIND[intent.kind],
            intent.namespace,
            intent.name,
            {"metadata": {"labels": mark}},
            manager=labels.FIELD_MANAGER,
        )
        self.cache.put_own(intent.kind, answer, by=None)

    async def _apply_one(self, item: Prepared, by: Key, uid: str) -> bool:
        intent, live = item.intent, self.cache.find(*item.address)
        if intent.shared and (live.version if live else 0) != item.seen:
            raise OutdatedError
        if live is None:
            self._known.pop(item.address, None)
        elif self._same_content(live, intent):
            if _has_its_owners(live, intent):
                return False
            change = change_between(live, intent)
            if intent.shared and self._owners.defer(item.address, change, live):
                return False
        if live is not None and intent.shared:
            owners = change_between(live, intent).applied_to(owners_in(live))
            intent = intent.with_owners(owners)
        try:
            await self._send(intent, by, item.seen if intent.shared else 0, uid)
        except ClusterError as error:
            if error.status == CONFLICT:
                raise OutdatedError from error
            raise
        return True

    def _same_content(self, live: Cached, intent: Intent) -> bool:
        address = (live.kind, live.namespace, live.name)
        if self._known.get(address) == (live.version, intent.digest):
            return True
        there = live.parse()
        digest = (there["metadata"].get("annotations") or {}).get(labels.INTENT_HASH)
        same = digest == intent.digest and is_in_sync(there, intent.content())
        if same:
            self._known[address] = (live.version, intent.digest)
        return same

    async def _send(self, intent: Intent, by: Key | None, version: int, uid: str = "") -> None:
        resource = BY_KIND[intent.kind]
        body = intent.at(version, uid)
        answer = await self._client.apply(resource, body, labels.FIELD_MANAGER)
        held = self.cache.put_own(intent.kind, answer, by=by)
        self._known[intent.kind, intent.namespace, intent.name] = (held.version, intent.digest)


def _has_its_owners(live: Cached, intent: Intent) -> bool:
    if intent.shared:
        return not change_between(live, intent)
    return intent.owners.keys() == live.owner_uids


async def prune(
    client: Client, cache: Cache, key: Key, unwanted: Iterable[Ref]
) -> tuple[list[Ref], list[StageError]]:
    """Delete objects of a model; return what was deleted and what was refused.

    Each delete names the uid that was seen, so that an object that was created again under the same
    name stays; what models share is only deleted as it was seen, so that one that joins wins.

    Raises:
        OutdatedError: an object changed or was created again since the decision.
    """
    deleted: list[Ref] = []
    errors: list[StageError] = []
    for ref in sorted(unwanted):
        held = cache.find(ref.kind, key.namespace, ref.name)
        if held is None or held.deleting:
            continue
        version = "" if held.model else str(held.version)
        try:
            await client.delete(
                BY_KIND[ref.kind], key.namespace, ref.name, uid=held.uid, version=version
            )
        except ClusterError as error:
            if error.status == CONFLICT:
                raise OutdatedError from error
            errors.append(stage_error("prune", error))
        else:
            deleted.append(ref)
    return deleted, errors
