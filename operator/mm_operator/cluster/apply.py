"""Server-side apply, the only one: one field manager, forced, skipped when it would change nothing.

Why skip: an apply that changes nothing still costs a request, and at times bumps the resource
version all the same (kubernetes/kubernetes #131175), which wakes the reconcile that sent it.

What models share is applied only at the version that the decision saw, because each of them holds
a part of the truth.

Error texts hold no generated names: they become conditions, and a condition that changes with every
attempt would write for ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm_api import labels
from mm_api.conditions import Reason
from mm_operator.cluster.cache import Address, Cache, Cached
from mm_operator.cluster.client import Client
from mm_operator.cluster.covers import covers
from mm_operator.cluster.intent import Intent, make_intent
from mm_operator.cluster.keys import Key
from mm_operator.cluster.owners import DELAY_SECONDS, OwnerWriter, change_between
from mm_operator.cluster.resources import BY_KIND
from mm_operator.errors import ClusterError
from mm_operator.model import Outcome, Ref, StageError

CONFLICT = 409
_FORBIDDEN = 403


class OutdatedError(Exception):
    """Another model changed a shared object since this one's decision: decide again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An intent and the version of the object that the decision for it saw; 0 for none."""

    intent: Intent
    seen: int

    @property
    def address(self) -> Address:
        """Return where the object is kept in the cache."""
        return self.intent.kind, self.intent.namespace, self.intent.name


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
        wake: asks for a model to be reconciled.
        owners_delay_seconds: see `mm_operator.cluster.owners`; 0 writes owners at once.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        wake: Callable[[Key], None] = lambda _key: None,
        owners_delay_seconds: float = DELAY_SECONDS,
    ) -> None:
        self._client = client
        self.cache = cache
        self._known: dict[Address, tuple[int, str]] = {}
        self._together = owners_delay_seconds > 0
        self._owners = OwnerWriter(
            cache,
            same_content=self._same_content,
            send=lambda intent, version: self._send(intent, None, version),
            wake=wake,
            delay_seconds=owners_delay_seconds,
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

        Raises:
            OutdatedError: the decision was made from something that is no longer so.
        """
        done = Applied()
        for item in prepared:
            ref = Ref(item.intent.kind, item.intent.name)
            try:
                changed = await self._apply_one(item, by)
            except ClusterError as error:
                done.errors.append(stage_error("apply", error))
                break
            done.applied.append(ref)
            if changed:
                done.changed.append(ref)
        return done

    def would_make_again(self, prepared: Iterable[Prepared]) -> bool:
        """Return whether something that was applied before and is gone would be made anew."""
        return any(item.seen == 0 and item.address in self._known for item in prepared)

    def forget_gone(self) -> None:
        """Drop what is known of objects that no longer exist."""
        for address in [known for known in self._known if self.cache.find(*known) is None]:
            del self._known[address]

    async def close(self) -> None:
        """Drop delayed writes."""
        await self._owners.close()

    async def _apply_one(self, item: Prepared, by: Key) -> bool:
        intent, live = item.intent, self.cache.find(*item.address)
        if intent.shared and (live.version if live else 0) != item.seen:
            raise OutdatedError
        if live is None:
            self._known.pop(item.address, None)
        elif self._same_content(live, intent):
            if intent.owners.keys() == live.owner_uids:
                return False
            if intent.shared and self._together:
                self._owners.defer(item.address, change_between(live, intent))
                return False
        try:
            await self._send(intent, by, item.seen if intent.shared else 0)
        except ClusterError as error:
            if error.status == CONFLICT and intent.shared:
                raise OutdatedError from error
            raise
        return True

    def _same_content(self, live: Cached, intent: Intent) -> bool:
        """Return whether everything but the owners is as intended."""
        address = (live.kind, live.namespace, live.name)
        if self._known.get(address) == (live.version, intent.digest):
            return True
        there = live.parse()
        digest = (there["metadata"].get("annotations") or {}).get(labels.INTENT_HASH)
        same = digest == intent.digest and covers(there, intent.content())
        if same:
            self._known[address] = (live.version, intent.digest)
        return same

    async def _send(self, intent: Intent, by: Key | None, version: int) -> None:
        resource = BY_KIND[intent.kind]
        body = intent.at_version(version)
        answer = await self._client.apply(resource, body, labels.FIELD_MANAGER)
        held = self.cache.put_own(intent.kind, answer, by=by)
        self._known[intent.kind, intent.namespace, intent.name] = (held.version, intent.digest)


def stage_error(stage: str, error: ClusterError) -> StageError:
    """Return an error of the API server as an observation for the status."""
    quota = error.status == _FORBIDDEN and "exceeded quota" in error.message
    reason = Reason.QUOTA_EXCEEDED if quota else Reason.CLUSTER_ERROR
    return StageError(stage, reason, str(error))
