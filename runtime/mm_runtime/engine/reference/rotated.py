"""Qwen2-VL's language model: the rotations of a prompt come with the request.

Positions of a picture's features have three coordinates; who made the prompt knows them. So a
request brings cosines and sines of its prompt's positions, as TensorRT-LLM takes them, and the
distance between the last of them and the number of tokens; what follows is rotated by that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.reference.adapters import AdapterFolder
from mm_runtime.engine.reference.beams import Branches
from mm_runtime.engine.reference.language_model import LanguageModel
from mm_runtime.engine.reference.request import Request


class _Rotation(torch.nn.Module):
    """Stands where the model computes its rotations, and gives out those that were aimed."""

    def __init__(self) -> None:
        super().__init__()
        self.aimed: tuple[torch.Tensor, torch.Tensor] = (torch.empty(0), torch.empty(0))

    def forward(
        self, hidden: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines [rows, positions, head size]."""
        del position_ids  # they are in what was aimed
        cosines, sines = self.aimed
        return cosines.to(hidden.dtype), sines.to(hidden.dtype)


class RotatedLanguageModel(LanguageModel):
    """A decoder whose slots know how their positions are rotated."""

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str,
        slots: int,
        max_length: int,
        family: str = "qwen2-vl",
        adapters: Sequence[AdapterFolder] = (),
    ) -> None:
        """Load as any decoder; see `LanguageModel`."""
        super().__init__(
            folder,
            dtype=dtype,
            slots=slots,
            max_length=max_length,
            family=family,
            adapters=adapters,
        )
        self._plain: Any = self._model.rotary_emb
        self._rotation = _Rotation()
        self._model.rotary_emb = self._rotation
        self._pairs = int(self._plain.inv_freq.shape[0])
        self._tables: list[torch.Tensor | None] = [None] * (slots)
        self._deltas = [0] * (slots)

    def check(self, request: Request) -> None:
        """Refuse rotations that do not cover the prompt, or are missing beside pictures."""
        super().check(request)
        if request.rotation is None:
            if request.table is not None:
                raise RequestError(
                    "mrope_rotary_cos_sin is missing: positions of pictures have three coordinates"
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
        """Keep the rotations with the slot; return the prompt's embeddings."""
        table = None
        if request.rotation is not None:
            values = torch.from_numpy(request.rotation.copy()).reshape(-1, self._pairs, 2)
            table = values[: len(request.ids)]
        self._tables[slot], self._deltas[slot] = table, request.rotation_delta
        return super().begin(slot, request)

    def prefill(self, slot: int, start: int, prompt: torch.Tensor) -> torch.Tensor:
        """Run some prompt positions of one slot, rotated as the request says."""
        table = self._tables[slot]
        if table is None:
            self._aim(torch.arange(start, start + len(prompt))[None])
        else:
            part = table[start : start + len(prompt)][None]
            self._rotation.aimed = (_doubled(part[..., 0]), _doubled(part[..., 1]))
        return super().prefill(slot, start, prompt)

    def decode(self, tokens: Sequence[int | Branches], positions: Sequence[int]) -> torch.Tensor:
        """Run one token in each of the first slots, each at its own place."""
        places = [position + self._deltas[slot] for slot, position in enumerate(positions)]
        self._aim(torch.tensor(places)[:, None])
        return super().decode(tokens, positions)

    def move(self, source: int, target: int, length: int) -> None:
        """Give positions and rotations of one slot to another."""
        super().move(source, target, length)
        self._tables[target], self._deltas[target] = self._tables[source], self._deltas[source]

    @torch.inference_mode()
    def _aim(self, positions: torch.Tensor) -> None:
        """Rotate by ordinary positions [rows, positions]: all three coordinates are the same."""
        self._rotation.aimed = self._plain(torch.zeros(1), positions[None])


def _doubled(values: torch.Tensor) -> torch.Tensor:
    """Return the rotations of both halves of a head, which are the same."""
    return torch.cat((values, values), dim=-1)
