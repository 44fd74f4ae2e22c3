"""From an engine directory to an engine that is ready to start."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from mm_api.families import FAMILIES, SERVED
from mm_api.families.family import Kind
from mm_runtime.reference_engine.adapters import AdapterFolder
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.cross_attention import CrossAttentionModel
from mm_runtime.reference_engine.encoder_decoder import KINDS, EncoderDecoderModel
from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.fused.kernels import Kernels
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.options import EngineOptions
from mm_runtime.reference_engine.own_class import OwnClassModel
from mm_runtime.reference_engine.rotated import RotatedLanguageModel
from mm_runtime.serving.device import CPU
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.generate.request import Request
from mm_runtime.serving.prompts.starts import decoder_start
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.threads import threads_for

PROMPT_ROWS = 16
"""Rows of prompts in a step beside decoding requests on a processor, while few wait:
docs/studies/shared-cores.md compares 8 to 128."""

GPU_PROMPT_ROWS = 128
"""The same on a GPU, which computes them while it reads weights: on an H100 a part of 16 rows took
1.58 ms and one of 128 rows 1.84 ms (1.3 billion parameters), 5.71 and 6.35 ms (7 billion). Eight
streams beside four image clients, each with a graph of its own size: 128, 96 and 64 rows gave 77.0,
58.5 and 42.9 images a second, and pauses of 4.21, 3.90 and 4.00 ms (1.3 billion, p95, one run)."""

GPU_GROWN_ROWS = 4 * GPU_PROMPT_ROWS
"""A longer part has a pass of its own and reads the weights again: a little longer it doubled the
pause of every answer (7 billion parameters on an H100, p95: 15.1 ms, and 9.7 without such parts).
That four times as many rows are worth it is an estimate, from 7.4 ms for 128 rows beside 8 tokens,
and 5.3 + 14.2 ms for 8 tokens and then 600 rows (docs/design/gpu-results.md)."""

_ROWS = {"cuda": (GPU_PROMPT_ROWS, GPU_GROWN_ROWS)}
"""Type of device -> rows, and those of grown parts."""

SOLO_ROWS = 32
"""The same where no two requests share a pass: a part is a pass of its own then, so small ones only
cost more of them."""


@dataclass(frozen=True)
class LoadedEngine:
    """An engine and what its callers must know about the checkpoint."""

    engine: Engine
    end_ids: frozenset[int]
    vocabulary_size: int
    encoder_decoder: bool
    adapters: Mapping[int, str]
    """Id of each LoRA adapter of the engine's manifest -> its name."""

    complete: Callable[[Request], Request]
    """Make ids of a prompt that is text; other requests stay as they are."""


def load_engine(
    directory: EngineDirectory,
    *,
    max_queue_size: int,
    cancellation_check_seconds: float,
    device: torch.device = CPU,
    kernels: Kernels | None = None,
    reuse_bytes: int = 0,
) -> LoadedEngine:
    """Load the language model within the limits it was built for; the engine is not started.

    `kernels`: of fused decoders; None: those of the device. `reuse_bytes`: see `Checkpoint`.

    Raises:
        OSError, ValueError: a file is missing or not understood.
    """
    limits = directory.limits
    start = len(decoder_start(directory.llm)) if directory.facts.encoder else 0
    torch.set_num_threads(threads_for(directory.facts.weight_bytes, len(os.sched_getaffinity(0))))
    model = load_model(directory, device, kernels, reuse_bytes)
    shares = isinstance(model, LanguageModel)
    beside, grown = _ROWS.get(device.type, (PROMPT_ROWS, 0)) if shares else (SOLO_ROWS, 0)
    options = EngineOptions(
        # A decoder starts with what its checkpoint forces, whatever limit the plan has for more.
        limits=limits.model_copy(update={"max_input_len": max(limits.max_input_len, start)}),
        max_queue_size=max_queue_size,
        prompt_rows=beside,
        grown_rows=grown,
        cancellation_check_seconds=cancellation_check_seconds,
    )
    engine = Engine(model, options)
    return LoadedEngine(
        engine=engine,
        end_ids=frozenset(one for one in _end_ids(directory) if one < model.vocabulary_size),
        vocabulary_size=model.vocabulary_size,
        encoder_decoder=directory.facts.family in KINDS,
        adapters={one.uid: one.name for one in directory.manifest.plan.adapters},
        complete=model.complete if isinstance(model, OwnClassModel) else lambda one: one,
    )


def load_model(
    directory: EngineDirectory,
    device: torch.device = CPU,
    kernels: Kernels | None = None,
    reuse_bytes: int = 0,
) -> SlotModel:
    """Return the language model of an engine on a device, by its family; see `load_engine`.

    Raises:
        ValueError: the Reference engine has no such family.
    """
    family, limits = directory.facts.family, directory.limits
    kernels = open_kernels(device) if kernels is None else kernels
    record = FAMILIES.get(family)
    is_decoder = record is not None and record.checkpoint.decoder is not None
    rotated = record is not None and record.layout.rotated
    read = limits.max_encoder_input_len or limits.max_input_len
    checkpoint = Checkpoint(
        folder=directory.llm,
        family=family,
        dtype=directory.manifest.plan.engine.dtype,
        slots=limits.max_batch_size,
        max_length=limits.max_seq_len if is_decoder else read,
        adapters=_adapters(directory),
        device=device,
        reuse_bytes=reuse_bytes,
        kernels=kernels,
    )
    if family in KINDS:
        return EncoderDecoderModel(checkpoint)
    if record is not None and record.kind is Kind.CROSS_ATTENTION:
        return CrossAttentionModel(checkpoint)
    if record is not None and not record.has_tower:
        return OwnClassModel(checkpoint, directory.processor)
    if record is None or record.checkpoint.decoder is None:
        raise ValueError(
            f"the Reference engine has no family {family!r}; it has {', '.join(sorted(SERVED))}"
        )
    return (RotatedLanguageModel if rotated else LanguageModel)(checkpoint)


def _adapters(directory: EngineDirectory) -> list[AdapterFolder]:
    facts = directory.facts
    return [
        AdapterFolder(one.uid, one.name, directory.adapters / one.name, facts)
        for one in directory.manifest.plan.adapters
    ]


def _end_ids(directory: EngineDirectory) -> frozenset[int]:
    ids = {TextCodec(directory.tokenizer).end_id}
    listed = directory.generation.get("eos_token_id")
    return frozenset(ids | (set(listed if isinstance(listed, list) else [listed]) - {None}))
