"""Removing engines that no model needs; the caller knows which are needed."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from mm_api.base import Document
from mm_runtime.engine_build.abandoned import remove_abandoned
from mm_runtime.errors import EngineBusyError, EngineCorruptError
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore, parse_manifest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Demand:
    """Which engines go: those named in `remove`, or all but those in `keep`."""

    remove: Collection[str] = ()
    keep: Collection[str] | None = None
    """None: nothing goes that `remove` does not name."""
    older_than: timedelta = timedelta(days=1)
    """Age below which an engine stays that is not in `keep`: the model that built it a moment ago
    may not be counted yet. Engines in `remove` go at any age."""

    unused_for: timedelta | None = None
    """Not None: an engine outside of `keep` goes once it has been outside for so long, as the
    store itself notes; its age does not count then."""

    def unwanted(self, fingerprint: str, age: timedelta | None) -> bool:
        """Return whether an engine goes; an age of None is unknown, which is old."""
        if fingerprint in self.remove:
            return True
        if self.keep is None or fingerprint in self.keep:
            return False
        return age is None or age >= self.older_than


class CollectResult(Document):
    """What `store gc` did; also its termination message."""

    removed: list[str] = Field(default=[], description="Fingerprints.")
    removed_bytes: int = 0
    kept: int = Field(default=0, description="Engines that stay.")
    busy: list[str] = Field(default=[], description="Being built now: they stay.")


def collect(
    store: EngineStore, demand: Demand, now: datetime, *, dry_run: bool = False
) -> CollectResult:
    """Remove the unwanted engines and what abandoned builds have left."""
    removed, busy, size, kept = [], [], 0, 0
    for fingerprint in store.fingerprints():
        created, bytes_ = _created_and_size(store, fingerprint)
        try:
            unwanted_now = _remove_unwanted(
                store, demand, fingerprint, (created, now), dry_run=dry_run
            )
        except EngineBusyError:
            busy.append(fingerprint)
            continue
        if not unwanted_now:
            kept += 1
            continue
        log.info(
            "%s engine %s, %d bytes", "would remove" if dry_run else "removed", fingerprint, bytes_
        )
        removed.append(fingerprint)
        size += bytes_
    if isinstance(store, DirectoryStore) and not dry_run:
        engines = store.root / "engines"
        if (engines / ".work").is_dir() and (engines / ".locks").is_dir():
            remove_abandoned(engines / ".work", engines / ".locks", now=time.time())
    return CollectResult(removed=removed, removed_bytes=size, kept=kept, busy=busy)


def _remove_unwanted(
    store: EngineStore,
    demand: Demand,
    fingerprint: str,
    times: tuple[datetime | None, datetime],
    *,
    dry_run: bool,
) -> bool:
    """Remove an engine if it is unwanted; return whether it is."""
    created, now = times
    if demand.unused_for is None or demand.keep is None:
        unwanted_now = demand.unwanted(fingerprint, now - created if created else None)
        if unwanted_now and not dry_run:
            store.remove(fingerprint)
        return unwanted_now
    if fingerprint in demand.keep:
        if not dry_run:
            store.used(fingerprint)
        return False
    before = now - demand.unused_for
    since = store.unused_since(fingerprint)
    if since is None and not dry_run:
        store.note_unused(fingerprint, now)
    unwanted_now = (since or now) <= before
    return unwanted_now and (dry_run or store.remove_unused(fingerprint, before))


def _created_and_size(store: EngineStore, fingerprint: str) -> tuple[datetime | None, int]:
    try:
        manifest = parse_manifest(store.manifest(fingerprint), fingerprint, str(store))
    except EngineCorruptError:
        return None, 0
    return manifest.created, sum(file.size for file in manifest.files)
