"""Decoder-only language models on torch: one token in many slots and part of a prompt, in one pass.

Images are rows of a request's prompt table, for every family here: an id past the vocabulary
stands for a row.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers.utils import logging as transformers_logging

from mm_api.documents.model_facts import StoredQuantization
from mm_api.families import FAMILIES
from mm_api.families.checkpoint_files import Decoder
from mm_api.families.family import Family
from mm_runtime.reference_engine.adapters import Adapter, Adapters
from mm_runtime.reference_engine.all_weights import load_weights
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.fused.decoder import FusedDecoder
from mm_runtime.reference_engine.fused.kernels import Linear
from mm_runtime.reference_engine.fused.weights import has_llama_shape, take_weights
from mm_runtime.reference_engine.model import Follow, Part, Passed, SlotModel
from mm_runtime.reference_engine.prefix_cache import (
    BLOCK,
    PrefixCache,
    block_names,
)
from mm_runtime.reference_engine.slot_cache import ATTENTION, SlotCache
from mm_runtime.serving.device import as_tensor, release_unused, sent
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import PrefixCounts, Request, Rows

LANGUAGE_MODEL = "llm"
"""Folder of the language model in checkpoints in parts."""


class LanguageModel(SlotModel):
    """Weights and key-value slots. Not thread-safe: one engine thread owns it."""

    repeatable = True
    """A pass writes keys and values at places that follow from its arguments alone."""

    rotation_width = 0
    """Numbers by which a request rotates each position of its prompt; 0: it brings none."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Load the language model of a family with a `decoder`; its vision tower is dropped."""
        slots, max_length, device = checkpoint.slots, checkpoint.max_length, checkpoint.device
        family, adapters = FAMILIES[checkpoint.family], checkpoint.adapters
        kernels = checkpoint.kernels
        loaded, self._head, config = _parts(
            family, checkpoint.folder, getattr(torch, checkpoint.dtype)
        )
        self._model: Any = loaded.eval()
        self._model.set_attn_implementation(ATTENTION)
        self._embed: Any = self._model.get_input_embeddings()
        self.vocabulary_size = int(config.vocab_size)
        self.hidden_size = int(config.hidden_size)
        self._adapter_of_slot: list[Adapter] = [None] * slots
        self._device = device
        self._prepared: tuple[Request, torch.Tensor] | None = None
        """A request that did not begin yet, and its prompt."""

        for ready in (self._embed, self._head):
            ready.to(device)
        self._prefixes: PrefixCache | None = None
        self._fused: FusedDecoder | None = None
        if kernels is not None and not adapters and has_llama_shape(self._model, config):
            self._fused = FusedDecoder(
                take_weights(self._model, max_length=max_length, device=device),
                Linear(self._head.weight.detach(), self._head.bias),
                kernels,
                slots=slots,
                max_length=max_length,
                device=device,
            )
            self._slots: FusedDecoder | SlotCache = self._fused
        else:
            self._slots = self._cache = self._plain_slots(checkpoint, config)
        if checkpoint.reuse_bytes:
            self._prefixes = PrefixCache(self._slots, limit_bytes=checkpoint.reuse_bytes)

    def _plain_slots(self, checkpoint: Checkpoint, config: Any) -> SlotCache:
        """Return slots for transformers' own modules, which compute on the device from now on."""
        self._adapters = Adapters({"llm": self._model}, checkpoint.adapters)
        self._model.to(checkpoint.device)
        return SlotCache(
            layers=config.num_hidden_layers,
            slots=checkpoint.slots,
            # OPT has one key for each head, and no name for it.
            heads=getattr(config, "num_key_value_heads", config.num_attention_heads),
            head_size=getattr(config, "head_dim", None)
            or config.hidden_size // config.num_attention_heads,
            max_length=checkpoint.max_length,
            dtype=self._embed.weight.dtype,
            device=checkpoint.device,
        )

    def check(self, request: Request) -> None:
        """Refuse ids and tables that are not this model's, and what decoders do not take."""
        if request.features is not None:
            raise RequestError(
                "encoder_input_features: this model has no cross attention; leave them out"
            )
        rows = 0 if request.table is None else len(request.table)
        past_end = self.vocabulary_size + rows
        if not all(0 <= token < past_end for token in request.ids):
            raise RequestError(
                f"prompt ids must be 0 to {past_end - 1}: {self.vocabulary_size} tokens "
                f"and {rows} rows of the prompt table"
            )
        if rows and request.table is not None and request.table.shape[1] != self.hidden_size:
            raise RequestError(
                f"rows of the prompt table have {request.table.shape[1]} values, "
                f"the model takes {self.hidden_size}"
            )

    def prompt_length(self, request: Request) -> int:
        return len(request.ids)

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        """Keep whose the slot is; return the prompt's embeddings [ids, hidden]."""
        self._adapter_of_slot[slot] = request.adapter
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] is request:
            return prepared[1]
        return self.embed(request.ids, request.table)

    def prepare(self, request: Request | None) -> None:
        if request is None or (self._prepared is not None and self._prepared[0] is not request):
            self._prepared = None
        if request is not None and self._prepared is None:
            self._prepared = (request, self.embed(request.ids, request.table))

    @property
    def launches(self) -> bool:
        return self._fused is not None and self._fused.launches

    @property
    def follow(self) -> Follow | None:
        return self._fused_pass if self.launches and self._fused is not None else None

    @torch.inference_mode()
    def embed(self, ids: Sequence[int], table: Rows | None) -> torch.Tensor:
        """Return the embeddings [ids, hidden]; ids past the vocabulary are rows of `table`."""
        # As arrays: while loops over a prompt run, no other thread has the interpreter's lock.
        wanted, size = np.asarray(ids, dtype=np.int64), self.vocabulary_size
        tokens = np.where(wanted < size, wanted, 0)
        # Counted here and not on the device, which would have to be waited for.
        virtual = np.flatnonzero(wanted >= size)
        if table is None or not len(virtual):
            alone: torch.Tensor = self._embed(self._ids(tokens))
            return alone
        # In one copy, since a GPU waits for each.
        numbers = self._ids(np.concatenate((tokens, virtual, wanted[virtual] - size)))
        own, places, sources = torch.split(numbers, [len(tokens), len(virtual), len(virtual)])
        embedded: torch.Tensor = self._embed(own)
        embedded[places] = as_tensor(table, self._device, embedded.dtype)[sources]
        return embedded

    def _ids(self, values: Sequence[Any] | NDArray[Any]) -> torch.Tensor:
        return sent(torch.tensor(values, dtype=torch.long), self._device)

    @property
    def prefixes(self) -> PrefixCounts | None:
        return None if self._prefixes is None else self._prefixes.counts

    @torch.inference_mode()
    def recall(self, slot: int, request: Request) -> int:
        if self._prefixes is None:
            return 0
        # The last token is always computed: what comes next follows from its state.
        names = self._block_names(request, request.ids[:-1])
        names = names[: self._prefixes.find(names)]
        self._prefixes.write(names, slot)
        found = len(names) * BLOCK
        self._prefixes.counts.requested += len(request.ids) - 1
        self._prefixes.counts.reused += found
        return found

    @torch.inference_mode()
    def keep(self, slot: int, request: Request, answer: Sequence[int], length: int) -> None:
        if self._prefixes is not None:
            tokens = (*request.ids, *answer)[:length]
            self._prefixes.keep(self._block_names(request, tokens), slot)

    def _block_names(self, request: Request, tokens: Sequence[int]) -> list[bytes]:
        return block_names(
            request, tokens, vocabulary=self.vocabulary_size, rotation_width=self.rotation_width
        )

    @torch.inference_mode()
    def run(
        self, tokens: Sequence[int], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        """Run one token in each of the first slots and part of a prompt, all in one pass."""
        if self._fused is not None:
            return self._fused_pass(tokens, positions, part)
        decoding, count = len(tokens), 0 if part is None else len(part.rows)
        rows = self._embed(self._ids(tokens))
        if part is not None:
            rows = torch.cat((rows, part.rows))
        places = self._cache.aim(positions, 0 if part is None else part.start, count)
        whose = [
            *self._adapter_of_slot[:decoding],
            *self._adapter_of_slot[decoding : decoding + 1] * count,
        ]
        self._adapters.aim(whose)
        states: torch.Tensor = self._model(
            inputs_embeds=rows[:, None],
            position_ids=places[:, None],
            use_cache=False,  # the slots are the cache
            slots=self._cache,
        ).last_hidden_state[:, 0]
        return Passed(states[:decoding], states[decoding:])

    def _fused_pass(
        self, tokens: Sequence[int] | torch.Tensor, positions: Sequence[int], part: Part | None
    ) -> Passed:
        assert self._fused is not None  # noqa: S101 (its callers have looked)
        return self._fused.run(tokens, positions, part)

    @torch.inference_mode()
    def logits(self, states: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(states).float()
        return logits

    @torch.inference_mode()
    def move(self, source: int, target: int, length: int) -> None:
        self._slots.move(source, target, length)
        self._adapter_of_slot[target] = self._adapter_of_slot[source]

    def release_unused(self) -> None:
        release_unused(self._device)


def load_nowhere(
    family: Family, folder: Path, quantization: StoredQuantization | None = None
) -> None:
    """Compare a checkpoint with its class, whose modules get no memory; raises as `load_weights`.

    Of checkpoints in parts it is the language model's: the others have loaders of their own.
    """
    if family.checkpoint.decoder is Decoder.FOLDER:
        kind, folder = transformers.AutoModelForCausalLM, folder / LANGUAGE_MODEL
    else:
        kind = getattr(transformers, family.transformers_class)
    more: dict[str, Any] = {}
    if quantization is not None:  # transformers knows no class of Model-Optimizer's matrices
        config = transformers.AutoConfig.from_pretrained(folder)
        vars(config).pop("quantization_config", None)
        more = {"config": config, "packed": 2 if quantization.weights == "NVFP4" else 1}
    load_full_model(kind, folder, torch.float32, device_map="meta", **more)


def load_full_model(kind: Any, folder: Path, dtype: torch.dtype, **more: Any) -> Any:
    """Return a checkpoint of one of transformers' classes, ready to answer; see `load_weights`."""
    quieten: Any = transformers_logging.disable_progress_bar
    quieten()  # the server's log is no terminal
    given = {"dtype": dtype, "local_files_only": True, **more}
    return load_weights(kind, folder, **given).eval()


def _parts(family: Family, folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Return language model, head and configuration of a checkpoint; the rest is dropped."""
    match family.checkpoint.decoder:
        case Decoder.FOLDER:
            kind: Any = transformers.AutoModelForCausalLM
            loaded = load_full_model(kind, folder / LANGUAGE_MODEL, dtype)
            return loaded.model, loaded.lm_head, loaded.config
        case None:
            raise ValueError(f"{family.name} has no decoder that reads a prompt table")
    loaded = load_full_model(getattr(transformers, family.transformers_class), folder, dtype)
    if family.checkpoint.decoder is Decoder.NESTED_MODEL:
        nested = loaded.language_model
        return nested.model.decoder, nested.lm_head, nested.config
    return loaded.model.language_model, loaded.lm_head, loaded.config.text_config
