"""Qwen2-VL's language model: the rotations of a prompt come with the request.

Positions of an image's features have three coordinates; who made the prompt knows them. So a
request brings cosines and sines of its prompt's positions, as TensorRT-LLM takes them, and the
distance between the last of them and the number of tokens; what follows is rotated by that.
"""

from collections.abc import Sequence
from typing import Any

import torch

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part, Passed
from mm_runtime.serving.device import as_tensor
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import Request


class _Rotation(torch.nn.Module):
    """Stands where the model computes its rotations, and gives out those that were aimed."""

    def __init__(self) -> None:
        super().__init__()
        self.aimed: tuple[torch.Tensor, torch.Tensor] = (torch.empty(0), torch.empty(0))

    def forward(
        self, hidden: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del position_ids  # they are in what was aimed
        cosines, sines = self.aimed
        return cosines.to(hidden.dtype), sines.to(hidden.dtype)


class RotatedLanguageModel(LanguageModel):
    """A decoder whose slots know how their positions are rotated."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        self._plain: Any = self._model.rotary_emb.to(checkpoint.device)
        self._rotation = _Rotation()
        self._model.rotary_emb = self._rotation
        self._pairs = int(self._plain.inv_freq.shape[0])
        self.rotation_width = 2 * self._pairs
        self._tables: list[torch.Tensor | None] = [None] * checkpoint.slots
        self._deltas = [0] * checkpoint.slots

    def check(self, request: Request) -> None:
        """Refuse rotations that do not cover the prompt, or are missing beside images."""
        super().check(request)
        if not -len(request.ids) <= request.rotation_delta <= 0:
            raise RequestError(
                f"mrope_position_deltas is {request.rotation_delta}; positions of images are never "
                f"more than their tokens, so that it is {-len(request.ids)} to 0 here"
            )
        if request.rotation is None:
            if request.table is not None:
                raise RequestError(
                    "mrope_rotary_cos_sin is missing: positions of images have three coordinates"
                )
            return
        needed = len(request.ids) * self._pairs * 2
        if request.rotation.size < needed:
            raise RequestError(
                f"mrope_rotary_cos_sin has {request.rotation.size} values; a prompt of "
                f"{len(request.ids)} tokens needs {needed}, a cosine and a sine for each of "
                f"{self._pairs} frequencies"
            )

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        table = None
        if request.rotation is not None:
            values = as_tensor(request.rotation, self._device, copy=True)
            table = values.reshape(-1, self._pairs, 2)[: len(request.ids)]
        self._tables[slot], self._deltas[slot] = table, request.rotation_delta
        return super().begin(slot, request)

    @torch.inference_mode()
    def run(
        self, tokens: Sequence[int], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        """Run tokens and part of a prompt, each row rotated as its request says."""
        decoding = len(tokens)
        if self._fused is not None:
            return self._fused_pass(tokens, positions, part)
        places = [position + self._deltas[slot] for slot, position in enumerate(positions)]
        table = None if part is None else self._tables[decoding]
        if part is not None and table is None:
            places += range(part.start, part.start + len(part.rows))
        # All three coordinates of an ordinary position are the same.
        of_each = torch.tensor(places, device=self._device)[None, :, None]
        both = self._plain(torch.zeros(1, device=self._device), of_each)
        # transformers before 5 keeps the three coordinates in one more dimension in front.
        leading = both[0].shape[:-3]
        cosines, sines = (one[(0,) * len(leading)] for one in both)
        if part is not None and table is not None:
            rows = table[part.start : part.start + len(part.rows), None]
            cosines = torch.cat((cosines, _doubled(rows[..., 0])))
            sines = torch.cat((sines, _doubled(rows[..., 1])))
        shape = (*leading, *cosines.shape)
        self._rotation.aimed = (cosines.expand(shape), sines.expand(shape))
        return super().run(tokens, positions, part)

    def _fused_pass(
        self, tokens: Sequence[int] | torch.Tensor, positions: Sequence[int], part: Part | None
    ) -> Passed:
        assert self._fused is not None  # noqa: S101 (its callers have looked)
        turned_by = [position + self._deltas[slot] for slot, position in enumerate(positions)]
        table = None if part is None else self._tables[part.slot_after(len(tokens))]
        turns = None
        if part is not None and table is not None:
            turns = table[part.start : part.start + len(part.rows)].transpose(1, 2).flatten(1)
        return self._fused.run(tokens, positions, part, turned_by=turned_by, turns=turns)

    def move(self, source: int, target: int, length: int) -> None:
        super().move(source, target, length)
        self._tables[target], self._deltas[target] = self._tables[source], self._deltas[source]


def _doubled(values: torch.Tensor) -> torch.Tensor:
    return torch.cat((values, values), dim=-1)
