"""A language model that computes nothing: one token again and again, up to an answer's length.

In the process of `tensorrt_llm`, whose source begins with an import of this file (sitecustomize).
MM_STEP_MS: how long a step waits (as for a GPU, without the interpreter's lock); 0: not at all.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mm_runtime.reference_engine.model import SlotModel

TOKEN = int(os.environ.get("MM_TOKEN", "20"))
STEP_SECONDS = float(os.environ.get("MM_STEP_MS", "0")) / 1e3


class Nothing:
    """A model of `mm_runtime.reference_engine.model.SlotModel` that has no weights."""

    repeatable = launches = False
    adapters = prefixes = follow = None

    def __init__(self, vocabulary_size: int) -> None:
        """Prepare the one row of logits."""
        import torch  # noqa: PLC0415 - in the language model's process only

        self.vocabulary_size = vocabulary_size
        self._torch = torch
        self._row = torch.zeros(1, vocabulary_size)
        self._row[0, TOKEN] = 1.0

    def check(self, request: Any) -> None:
        """Refuse nothing."""

    def prompt_length(self, request: Any) -> int:
        """Return the tokens of the prompt."""
        return len(request.ids)

    def prepare(self, request: Any) -> None:
        """Prepare nothing."""

    def cut(self, slot: int, start: int, rows: int) -> int:
        """Return the rows: none reads a later one."""
        del slot, start
        return rows

    def begin(self, slot: int, request: Any) -> Any:
        """Return a row for each token."""
        del slot
        return self._torch.zeros(len(request.ids), 1)

    def recall(self, slot: int, request: Any) -> int:
        """Return that nothing is known."""
        del slot, request
        return 0

    def keep(self, slot: int, request: Any, answer: Sequence[int], length: int) -> None:
        """Keep nothing."""

    def run(self, tokens: Sequence[Any], positions: Sequence[int], part: Any = None) -> Any:
        """Return a row for each token and each row of the part."""
        from mm_runtime.reference_engine.model import Passed  # noqa: PLC0415 - as above

        del positions
        if STEP_SECONDS:
            time.sleep(STEP_SECONDS)
        read = 0 if part is None else len(part.rows)
        return Passed(self._torch.zeros(len(tokens), 1), self._torch.zeros(read, 1))

    def logits(self, states: Any) -> Any:
        """Return the same row for each."""
        return self._row.expand(len(states), self.vocabulary_size)

    def move(self, source: int, target: int, length: int) -> None:
        """Do nothing: no slot knows anything."""

    def release_unused(self) -> None:
        """Release nothing."""


def patch_load(module: Any) -> None:
    """Load nothing."""

    def load_model(directory: Any, *_: object) -> "SlotModel":  # its type is checked here
        return Nothing(directory.facts.text.vocabulary_size)

    module.load_model = load_model


sys.path.append(str(Path(__file__).resolve().parents[2] / "gpu" / "sums"))
from notes import Finder  # noqa: E402 - the folder is no package

sys.meta_path.insert(0, Finder({"mm_runtime.reference_engine.load": patch_load}))
