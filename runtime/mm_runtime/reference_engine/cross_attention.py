"""Llama 3.2 Vision's language model: some layers read images by cross attention."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import DynamicCache

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import load_full_model
from mm_runtime.reference_engine.unbatched import UnbatchedModel
from mm_runtime.serving.device import as_tensor
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import Request


@dataclass
class _State:
    cache: DynamicCache
    features: torch.Tensor | None
    """[1, positions, hidden] until the first pass, which keeps their keys and values."""

    mask: torch.Tensor | None
    """bool [tokens, positions]; tokens after the last row see what the last row sees."""


class CrossAttentionModel(UnbatchedModel):
    """A decoder with cross-attention layers; without images they are skipped."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.slots, checkpoint.device)
        kind = transformers.MllamaForConditionalGeneration
        dtype = getattr(torch, checkpoint.dtype)
        loaded = load_full_model(kind, checkpoint.folder, dtype)
        self._model: Any = loaded.model.language_model
        # tests/twin: 4.53 has no such method, and gives other answers than 4.57 and newer.
        if not hasattr(self._model, "set_attn_implementation"):
            raise NotImplementedError("answers of Llama 3.2 Vision need transformers 4.57")
        self.adapt({"llm": self._model}, checkpoint.adapters)
        self._head: Any = loaded.lm_head
        for part in (self._model, self._head):
            part.to(self.device)
        self._max_encoder_length = checkpoint.max_length
        self.vocabulary_size = int(loaded.config.text_config.vocab_size)
        self._known = int(self._model.get_input_embeddings().weight.shape[0])
        """Ids that have an embedding: the image token lies behind the vocabulary."""

        self._hidden_size = int(loaded.config.text_config.hidden_size)

    def check(self, request: Request) -> None:
        """Refuse features of another width or number, and a mask that does not fit them."""
        if request.table is not None:
            raise RequestError("prompt_embedding_table: this model reads encoder_input_features")
        if not all(0 <= token < self._known for token in request.ids):
            raise RequestError(f"input_ids must be 0 to {self._known - 1}")
        features, mask = request.features, request.cross_mask
        if features is None:
            return
        if features.shape[1] != self._hidden_size or len(features) > self._max_encoder_length:
            raise RequestError(
                f"encoder_input_features: got {list(features.shape)}, expected at most "
                f"{self._max_encoder_length} rows of {self._hidden_size}"
            )
        if mask is None or mask.shape[1] != len(features) or len(mask) < len(request.ids):
            shape = None if mask is None else list(mask.shape)
            raise RequestError(
                f"cross_attention_mask: got {shape}, expected {len(request.ids)} rows or more, one "
                f"a token, of {len(features)}"
            )

    def open(self, request: Request) -> _State:
        features = mask = None
        if request.features is not None and request.cross_mask is not None:
            dtype = self._model.dtype
            features = as_tensor(request.features, self.device, dtype, copy=True)[None]
            mask = as_tensor(request.cross_mask, self.device, copy=True)
        return _State(DynamicCache(), features, mask)

    def step(self, state: _State, ids: torch.Tensor, start: int) -> torch.Tensor:
        """Run some tokens; the first pass also reads the images."""
        hidden = self._model(
            input_ids=ids,
            position_ids=torch.arange(start, start + ids.shape[1], device=self.device)[None],
            cross_attention_states=state.features,
            past_key_values=state.cache,
            use_cache=True,
            **self._masks(state.mask, start, ids.shape[1]),
        ).last_hidden_state
        state.features = None
        logits: torch.Tensor = self._head(hidden[0])
        return logits

    def _masks(self, mask: torch.Tensor | None, start: int, count: int) -> dict[str, torch.Tensor]:
        """Return the additive mask, and which tokens see any image at all."""
        if mask is None:
            return {}
        places = torch.arange(start, start + count, device=self.device)
        rows = mask[places.clamp(max=len(mask) - 1)]
        lowest = torch.finfo(self._model.dtype).min
        sees = rows.any(dim=-1, keepdim=True)
        # A token that sees nothing attends everywhere, and what it gets is multiplied by zero.
        closed = torch.zeros_like(rows, dtype=self._model.dtype)
        closed = closed.masked_fill(~rows & sees, lowest)
        return {
            "cross_attention_mask": closed[None, None],
            "full_text_row_masked_out_mask": sees.to(self._model.dtype)[None, None],
        }
