"""Adapters of running pods as they lie in the store: where, what the document says, checked again.

Engine and gateway read the document again and again: `RoomFile` opens it when it has changed. A
document that is missing or damaged changes nothing: what is served stays.
"""

import logging
from pathlib import Path

from pydantic import ValidationError

from mm_api.documents.adapter_room import (
    ADAPTERS_FILE,
    ROOMS_FOLDER,
    RoomAdapter,
    RoomAdapters,
)
from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.check import check_adapter
from mm_runtime.errors import PermanentError
from mm_runtime.sources.identity import source_digest

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024
"""Of the document: 16 adapters with the longest names take 4 KiB."""

POLL_SECONDS = 2.0
"""Between two looks at the document, of engine and gateway alike: one `stat` of a small file."""

RETIRED_SECONDS = 5 * POLL_SECONDS
"""An engine keeps an adapter so long that the document has no more: the gateway beside it has taken
the name back by then, and requests with it have arrived."""


def room_folder(engine: Path, key: str) -> Path:
    """Return the folder of a model's adapters; `engine` is that of the engine in its store."""
    return engine.parent / ROOMS_FOLDER / engine.name / key


class RoomFile:
    """The document of one model."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it may not exist yet."""
        self._path = folder / ADAPTERS_FILE
        self._seen: tuple[int, int, int] | None = None
        self._found: RoomAdapters | None = None
        self._said = ""

    def read(self) -> RoomAdapters | None:
        """Return the document as it was last understood; None: there never was one."""
        try:
            found = self._path.stat()
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if state != self._seen:
                self._found = self._parsed()
                self._seen = state
        except FileNotFoundError:
            pass
        except (OSError, ValidationError, ValueError) as error:
            text = f"{self._path} is not read, and the adapters stay as they are: {error}"
            if text != self._said:
                log.warning("%s", text)
            self._said = text
        return self._found

    def _parsed(self) -> RoomAdapters:
        with self._path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        return RoomAdapters.from_json(content)


def check_room_adapter(adapter: RoomAdapter, folder: Path, facts: ModelFacts) -> int:
    """Return the rank of an adapter whose files are complete and fit the checkpoint.

    Raises:
        PermanentError: they are other files than the document names, or do not fit.
    """
    found = source_digest(folder)
    if found != adapter.source_digest:
        raise PermanentError(
            f"LoRA adapter {adapter.name}: {folder} holds {found}; expected "
            f"{adapter.source_digest}."
        )
    config, _ = check_adapter(adapter.name, folder, facts)
    return config.rank


def check_rank(name: str, rank: int, most: int) -> None:
    """Refuse an adapter for which pods keep no memory.

    Raises:
        PermanentError: its rank is above the room's.
    """
    if rank > most:
        raise PermanentError(f"LoRA adapter {name} has rank {rank}, and pods have room for {most}.")
