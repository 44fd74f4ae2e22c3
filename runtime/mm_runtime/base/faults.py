"""What a process of a server says of its GPU before it ends; its supervisor reads it afterwards.

A file, because the process is Triton's child and has no other way to say more than "it died".
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

log = logging.getLogger(__name__)

VARIABLE = "MM_FAULT_FILE"
"""Where it is said; the supervisor sets it."""

NO_KERNELS = "kernels of Triton's language cannot be used here"
"""What a language model logs that computes without them, before a colon and the cause."""

LONGEST = 8192
"""Bytes of the file that are read."""


class FaultKind(StrEnum):
    """What is wrong with a GPU."""

    OUT_OF_MEMORY = "out-of-memory"
    """It had too little free memory for what was loaded."""

    LOST = "lost"
    """It computes nothing more for this process, or cannot be used by any."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and the sentence for a person."""

    kind: FaultKind
    message: str

    def report(self, environment: Mapping[str, str] = os.environ) -> None:
        """Leave it to the supervisor; what another process has said before stays.

        The first fault is the cause of the others.
        """
        path = environment.get(VARIABLE)
        if not path:
            return
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                json.dump({"kind": self.kind.value, "message": self.message}, file)
        except FileExistsError:
            return
        except OSError as error:
            log.error("a fault cannot be written to %s: %s", path, error.strerror)  # noqa: TRY400

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return what was said; None: nothing was."""
        try:
            with path.open("rb") as file:
                found = json.loads(file.read(LONGEST))
            return cls(FaultKind(found["kind"]), str(found["message"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
