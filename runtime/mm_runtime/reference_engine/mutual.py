"""Gemma 3's language model: tokens of an image read each other, later ones too.

So a part of a prompt never ends within an image: its last rows would read keys that are not there
yet.
"""

from collections.abc import Sequence

import torch

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part
from mm_runtime.reference_engine.reach import complete_rows, reach_of, rows_of_part
from mm_runtime.serving.generate.request import Request


class MutualLanguageModel(LanguageModel):
    """A decoder whose slots know where images begin and end."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        self._reach: list[list[int]] = [[] for _ in range(checkpoint.slots)]
        """For each slot's prompt: the last position that each one reads."""

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        """Keep the places of images with the slot; return the prompt's embeddings."""
        self._reach[slot] = reach_of(request.ids, self.vocabulary_size)
        return super().begin(slot, request)

    def cut(self, slot: int, start: int, rows: int) -> int:
        """Return the rows up to the image that the last one is part of, or all of that image."""
        return rows_of_part(self._reach[slot], start, rows)

    def _complete(self, slot: int, count: int) -> int:
        return complete_rows(self._reach[slot], count)

    def _aim(self, positions: Sequence[int], part: Part | None) -> torch.Tensor:
        if part is None:
            return super()._aim(positions, part)
        count = len(part.rows)
        reach = self._reach[len(positions)][part.start : part.start + count]
        return self._cache.aim(positions, part.start, count, reach)

    def move(self, source: int, target: int, length: int) -> None:
        """Give positions and images of one slot to another."""
        super().move(source, target, length)
        self._reach[target] = self._reach[source]
