"""The checkpoint's language model on torch: prefill one slot, or decode one token in many."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlavaForConditionalGeneration
from transformers.utils import logging as transformers_logging

from mm_runtime.engine.reference.slot_cache import SlotCache


class LanguageModel:
    """Weights and key-value slots. Not thread-safe: one engine thread owns it."""

    def __init__(self, folder: Path, *, dtype: str, slots: int, max_length: int) -> None:
        """Load the language model of a LLaVA checkpoint; its vision tower is dropped at once.

        Args:
            folder: config.json and safetensors in Hugging Face format.
            dtype: torch's name of the dtype to compute in, for example float32.
            slots: requests that can run at one time.
            max_length: positions of one request, prompt and answer together.
        """
        quieten: Any = transformers_logging.disable_progress_bar
        quieten()  # the server's log is no terminal
        checkpoint: Any = LlavaForConditionalGeneration.from_pretrained(
            folder, dtype=getattr(torch, dtype), attn_implementation="sdpa", local_files_only=True
        )
        config = checkpoint.config.text_config
        self._model: Any = checkpoint.model.language_model.eval()
        self._head: Any = checkpoint.lm_head.eval()
        self._embed: Any = self._model.get_input_embeddings()
        self.vocabulary_size = int(config.vocab_size)
        self.hidden_size = int(config.hidden_size)
        self._cache = SlotCache(
            layers=config.num_hidden_layers,
            slots=slots,
            heads=config.num_key_value_heads,
            head_size=getattr(config, "head_dim", None)
            or config.hidden_size // config.num_attention_heads,
            max_length=max_length,
            dtype=self._embed.weight.dtype,
        )

    @torch.inference_mode()
    def embed(self, ids: Sequence[int], table: NDArray[np.floating[Any]] | None) -> torch.Tensor:
        """Return the embeddings [ids, hidden]; ids past the vocabulary are rows of `table`."""
        tokens = torch.tensor(ids, dtype=torch.long)
        virtual = tokens >= self.vocabulary_size
        embedded: torch.Tensor = self._embed(tokens.masked_fill(virtual, 0))
        if table is not None and bool(virtual.any()):
            rows = torch.from_numpy(np.ascontiguousarray(table)).to(embedded.dtype)
            embedded[virtual] = rows[tokens[virtual] - self.vocabulary_size]
        return embedded

    @torch.inference_mode()
    def prefill(self, slot: int, start: int, embedded: torch.Tensor) -> torch.Tensor:
        """Run some prompt positions of one slot; return their hidden states [positions, hidden].

        Args:
            slot: whose key-value slot.
            start: position of the first embedding; earlier ones are in the slot already.
            embedded: [positions, hidden].
        """
        starts = torch.tensor([start])
        hidden = self._forward(slice(slot, slot + 1), starts, embedded[None])
        return hidden[0]

    @torch.inference_mode()
    def decode(self, tokens: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
        """Run one token in each of the first slots; return float32 logits [slots, vocabulary]."""
        embedded = self._embed(torch.tensor(tokens, dtype=torch.long))[:, None]
        hidden = self._forward(slice(0, len(tokens)), torch.tensor(positions), embedded)
        return self.logits(hidden[:, 0])

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [n, vocabulary] of hidden states [n, hidden]."""
        logits: torch.Tensor = self._head(hidden).float()
        return logits

    @torch.inference_mode()
    def move(self, source: int, target: int, length: int) -> None:
        """Give the first `length` positions of one slot to another."""
        self._cache.move(source, target, length)

    def _forward(self, rows: slice, starts: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        count = embedded.shape[1]
        mask = self._cache.aim(rows, starts, count)
        hidden: torch.Tensor = self._model(
            inputs_embeds=embedded,
            attention_mask=mask,
            position_ids=starts[:, None] + torch.arange(count),
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        return hidden
