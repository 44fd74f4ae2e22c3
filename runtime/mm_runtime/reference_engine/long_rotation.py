"""LongRoPE: frequencies of rotations follow from how long a request may become (Phi-3).

transformers decides it for all rows of a pass, by the furthest of their positions, and computes a
sequence again when it grows beyond `original_max_position_embeddings`. Here requests share passes
and nothing is computed again: a request whose prompt and longest answer end beyond that length has
the long frequencies from its first position on.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from mm_runtime.reference_engine.beams import Branches
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part, Passed
from mm_runtime.serving.generate.request import Request


class _Frequencies(torch.nn.Module):
    """Stands where the model computes its rotations; each row has frequencies of its own."""

    def __init__(self, short: torch.Tensor, long: torch.Tensor, scale: float) -> None:
        super().__init__()
        self._both = torch.stack((short, long))
        self._scale = scale
        self.is_long = torch.zeros(0, dtype=torch.long)
        """For each row of the next pass: 1 or 0."""

    def forward(
        self, hidden: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines [rows, positions, head size]."""
        frequencies = self._both[self.is_long][:, None]
        angles = position_ids[..., None].float() * frequencies
        both = torch.cat((angles, angles), dim=-1)
        cosines, sines = both.cos() * self._scale, both.sin() * self._scale
        return cosines.to(hidden.dtype), sines.to(hidden.dtype)


class LongRotationModel(LanguageModel):
    """A decoder whose slots know by which frequencies their positions are rotated."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Load as any decoder; see `LanguageModel`."""
        super().__init__(checkpoint)
        self._long, self._max_length = [False] * checkpoint.slots, checkpoint.max_length
        self._shortest_long: int | None = None
        """Positions from which a request is long; None: rotations are scaled by nothing."""

        config = self._model.config
        kind = config.rope_parameters["rope_type"]
        if kind != "longrope":
            return
        self._shortest_long = int(config.rope_parameters["original_max_position_embeddings"]) + 1
        of_length: Any = ROPE_INIT_FUNCTIONS[kind]
        short, scale = of_length(config, self._device)
        long, _ = of_length(config, self._device, seq_len=self._shortest_long)
        self._frequencies = _Frequencies(short, long, scale)
        self._model.rotary_emb = self._frequencies

    def _is_long(self, request: Request) -> bool:
        # The last token of an answer is never read.
        most = min(len(request.ids) + request.max_tokens - 1, self._max_length)
        return self._shortest_long is not None and most >= self._shortest_long

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        """Keep with the slot how it is rotated; return the prompt's embeddings."""
        self._long[slot] = self._is_long(request)
        return super().begin(slot, request)

    def _block_names(self, request: Request, tokens: Sequence[int]) -> list[bytes]:
        # Keys of one rotation are of no use to requests of the other.
        names = super()._block_names(request, tokens)
        return [b"long" + one for one in names] if self._is_long(request) else names

    @torch.inference_mode()
    def run(
        self, tokens: Sequence[int | Branches], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        """Run tokens and part of a prompt, each row rotated as its request is."""
        if self._shortest_long is not None:
            decoding, count = len(tokens), 0 if part is None else len(part.rows)
            rows = [*self._long[:decoding], *self._long[decoding : decoding + 1] * count]
            self._frequencies.is_long = torch.tensor(rows, dtype=torch.long, device=self._device)
        return super().run(tokens, positions, part)

    def move(self, source: int, target: int, length: int) -> None:
        """Give positions and rotations of one slot to another."""
        super().move(source, target, length)
        self._long[target] = self._long[source]
