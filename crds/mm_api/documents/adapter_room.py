"""LoRA adapters of running pods: the room that pods keep, and the document that fills it.

The document lies beside the engine in its store. One Job writes it, after the files that it names;
engine and gateway of each pod read it again when it has changed.
"""

from hashlib import sha256
from typing import Final, Literal

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.lora_adapter import ADAPTER_NAME_PATTERN

ROOMS_FOLDER: Final = ".adapters"
"""Beside the engines of a store: FINGERPRINT/KEY, with a folder for each adapter, named by its
uid. No part of an engine: its manifest, which covers every file of it, stays as it was built."""

ADAPTERS_FILE: Final = "adapters.json"

_UID_DIGITS = 12
"""Of a digest, in hex: 48 bits, which JSON and every client's numbers hold exactly."""


class LoraRoom(Document):
    """What the pods of a revision have memory for."""

    key: str = Field(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        description="Folder of the model's adapters among those of its engine: the model's uid.",
    )
    max_adapters: int = Field(ge=1)
    max_rank: int = Field(ge=1)


class RoomAdapter(Document):
    """One adapter whose files are in the store."""

    name: str = Field(pattern=ADAPTER_NAME_PATTERN, max_length=63)
    uid: int = Field(ge=0, description="What a request names it by; also its folder.")
    source_digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class RoomAdapters(Document):
    """The adapters that pods shall serve."""

    format_version: Literal[1] = 1
    generation: int = Field(ge=0, description="Of the model when the Job was made: never lowered.")
    adapters: list[RoomAdapter] = Field(default=[], max_length=16)


def adapter_uid(name: str, source_digest: str) -> int:
    """Return the id of an adapter: another name or other files have another one, for ever.

    What is kept of requests is distinguished by it, so it must never come back for something else.
    """
    return int(sha256(f"{name}/{source_digest}".encode()).hexdigest()[:_UID_DIGITS], 16)
