"""Removing engines that no model needs; the caller knows which are needed."""

import logging
import time
from collections.abc import Collection
from datetime import datetime, timedelta

from pydantic import Field

from mm_api.base import Document
from mm_runtime.engine_build.abandoned import remove_abandoned
from mm_runtime.errors import EngineBusyError, EngineCorruptError
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore, parse_manifest

log = logging.getLogger(__name__)


class CollectResult(Document):
    """What `store gc` did; also its termination message."""

    removed: list[str] = Field(default=[], description="Fingerprints.")
    removed_bytes: int = 0
    kept: int = Field(default=0, description="Engines that stay.")
    busy: list[str] = Field(default=[], description="Being built now: they stay.")


def collect(
    store: EngineStore,
    now: datetime,
    *,
    remove: Collection[str] = (),
    keep: Collection[str] | None = None,
    unused_for: timedelta = timedelta(days=1),
) -> CollectResult:
    """Remove engines, and what abandoned builds have left.

    Those in `remove` go at once. All that are not in `keep` go once they have been outside of it
    for `unused_for`, as the store itself notes; None: none of them go.
    """
    removed, busy, size, kept = [], [], 0, 0
    for fingerprint in store.fingerprints():
        bytes_ = _size(store, fingerprint)
        try:
            if fingerprint in remove:
                store.remove(fingerprint)
            elif keep is None or not _swept(store, fingerprint, keep, now, unused_for):
                kept += 1
                continue
        except EngineBusyError:
            busy.append(fingerprint)
            continue
        log.info("removed engine %s, %d bytes", fingerprint, bytes_)
        removed.append(fingerprint)
        size += bytes_
    if isinstance(store, DirectoryStore):
        engines = store.root / "engines"
        if (engines / ".work").is_dir() and (engines / ".locks").is_dir():
            remove_abandoned(engines / ".work", engines / ".locks", now=time.time())
    return CollectResult(removed=removed, removed_bytes=size, kept=kept, busy=busy)


def _swept(
    store: EngineStore,
    fingerprint: str,
    keep: Collection[str],
    now: datetime,
    unused_for: timedelta,
) -> bool:
    """Note whether an engine is kept; return whether it was removed for not being so long."""
    if fingerprint in keep:
        store.used(fingerprint)
        return False
    before = now - unused_for
    since = store.unused_since(fingerprint)
    if since is None:
        store.note_unused(fingerprint, now)
    return (since or now) <= before and store.remove_unused(fingerprint, before)


def _size(store: EngineStore, fingerprint: str) -> int:
    try:
        manifest = parse_manifest(store.manifest(fingerprint), fingerprint, str(store))
    except EngineCorruptError:
        return 0
    return sum(file.size for file in manifest.files)
