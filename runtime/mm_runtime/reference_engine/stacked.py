"""Qwen3-VL's language model: rows of an image bring features for the first layers, too.

A row of the prompt table is the embedding and, behind it, what is added to the output of each of
the first layers. Rows of a prompt stay that wide until their pass; those of text have zeros there.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from mm_runtime.reference_engine.beams import Branches
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.model import Part, Passed
from mm_runtime.reference_engine.rotated import RotatedLanguageModel
from mm_runtime.serving.device import as_tensor
from mm_runtime.serving.generate.request import Rows


class StackedLanguageModel(RotatedLanguageModel):
    """A rotated decoder that adds features behind its first layers."""

    def __init__(self, checkpoint: Checkpoint, stacked: int) -> None:
        """Load as any rotated decoder; `stacked` layers get features."""
        super().__init__(checkpoint)
        self._stacked = stacked
        self._added: torch.Tensor | None = None
        """For the next pass's rows, [rows, stacked x hidden]; None: it has text alone."""

    @property
    def row_size(self) -> int:
        """Return the values of a row of the prompt table."""
        return self.hidden_size * (1 + self._stacked)

    @torch.inference_mode()
    def embed(self, ids: Sequence[int], table: Rows | None) -> torch.Tensor:
        """Return the embeddings with what is added later, [ids, row size]; text alone has none."""
        if table is None:
            return super().embed(ids, None)
        rows = as_tensor(table, self._device, self._embed.weight.dtype)
        embedded = super().embed(ids, rows[:, : self.hidden_size])
        wide = pad(embedded, (0, self.row_size - self.hidden_size))
        size = self.vocabulary_size
        virtual = [place for place, one in enumerate(ids) if one >= size]
        if virtual:
            wide[self._ids(virtual)] = rows[self._ids([ids[at] - size for at in virtual])]
        return wide

    @torch.inference_mode()
    def run(
        self, tokens: Sequence[int | Branches], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        """Run tokens and part of a prompt, whose features are added behind the first layers."""
        self._added = None
        if part is not None and part.rows.shape[1] > self.hidden_size:
            self._added = pad(part.rows[:, self.hidden_size :], (0, 0, len(tokens), 0))
            part = Part(part.start, part.rows[:, : self.hidden_size])
        return super().run(tokens, positions, part)

    def _states(self, rows: torch.Tensor, places: torch.Tensor, **more: Any) -> torch.Tensor:
        if self._added is not None:
            everywhere = torch.ones((len(rows), 1), dtype=torch.bool, device=rows.device)
            levels = self._added.reshape(-1, self._stacked, self.hidden_size).unbind(1)
            more |= {"visual_pos_masks": everywhere, "deepstack_visual_embeds": list(levels)}
        return super()._states(rows, places, **more)
