"""`mm-runtime adapters`: the adapters of a running model into the store, then the document of them.

Whatever is killed on the way leaves the document of before. Files of adapters that it has no more
stay for one more run, because a pod may be reading them.
"""

import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mm_api.documents.adapter_room import ADAPTERS_FILE, RoomAdapter, RoomAdapters, adapter_uid
from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.check import check_adapter
from mm_runtime.adapters.files import copy_adapter
from mm_runtime.adapters.room import RoomFile, check_rank, room_folder
from mm_runtime.base import manifest
from mm_runtime.base.durable import write_durably, writing_to
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.lock import StoppedWhileWaitingError, locked
from mm_runtime.sources.identity import source_digest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RoomOptions:
    """What one run is for."""

    store: Path
    fingerprint: str
    key: str
    generation: int
    max_rank: int
    adapters: Sequence[tuple[str, str]]
    """Names and addresses."""


def load_adapters(options: RoomOptions, stop: StopSignal) -> RoomAdapters:
    """Write files and document; return the document that lies there then.

    Raises:
        EngineCorruptError: the engine is not in the store.
        SourceNotFoundError, PermanentError: an adapter is missing, or does not fit.
        StoreNotWritableError: no space, or no right.
        StoppedWhileWaitingError: a stop signal came first, and the document is that of before.
    """
    paths = BuildPaths(options.store, options.fingerprint)
    facts = manifest.read(paths.manifest).plan.facts
    folder = room_folder(paths.engine, options.key)
    with writing_to(options.store):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".lock", stop, holder=options.key):
            return _write(options, folder, facts, stop)


def _write(options: RoomOptions, folder: Path, facts: ModelFacts, stop: StopSignal) -> RoomAdapters:
    document = folder / ADAPTERS_FILE
    before = RoomFile(folder).read()  # None: there is none, or a damaged one, which is replaced
    if before is not None and before.generation > options.generation:
        log.info("a later Job has written the adapters of generation %d", before.generation)
        return before
    found = RoomAdapters(
        generation=options.generation,
        adapters=[_fetched(options, folder, facts, *one) for one in options.adapters],
    )
    if stop.wait(0):
        raise StoppedWhileWaitingError
    write_durably(document, found.to_json(indent=2))
    named = {
        str(one.uid) for known in (before, found) if known is not None for one in known.adapters
    }
    for left in folder.iterdir():
        if left.is_dir() and left.name not in named:
            shutil.rmtree(left, ignore_errors=True)
    return found


def _fetched(
    options: RoomOptions, folder: Path, facts: ModelFacts, name: str, source: str
) -> RoomAdapter:
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    copied = work / name
    copied.mkdir()
    try:
        digest = copy_adapter(name, source, copied, allow_pickle=False)
        config, _ = check_adapter(name, copied, facts)
        check_rank(name, config.rank, options.max_rank)
        uid = adapter_uid(name, digest)
        place = folder / str(uid)
        if place.exists() and source_digest(place) != digest:
            log.warning("adapter %s, uid %d: its files in the store are damaged", name, uid)
            place.rename(work / "damaged")
        if not place.exists():
            copied.chmod(0o755)
            copied.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    log.info("adapter %s, uid %d", name, uid)
    return RoomAdapter(name=name, uid=uid, source_digest=digest)
