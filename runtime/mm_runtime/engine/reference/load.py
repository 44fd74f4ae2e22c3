"""From an engine directory to an engine that is ready to start."""

import json
import os
from dataclasses import dataclass

import torch

from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.engine.reference.engine import Engine, EngineOptions
from mm_runtime.engine.reference.language_model import LanguageModel
from mm_runtime.engine.threads import threads_for
from mm_runtime.engine.tokens import TextCodec

GENERATION_CONFIG = "generation_config.json"


@dataclass(frozen=True)
class LoadedEngine:
    """An engine and what its callers must know about the checkpoint."""

    engine: Engine
    end_ids: frozenset[int]
    vocabulary_size: int


def load_engine(
    directory: EngineDirectory,
    *,
    max_queue_size: int,
    cancellation_check_seconds: float,
) -> LoadedEngine:
    """Load the language model within the limits it was built for; the engine is not started.

    Raises:
        OSError, ValueError: a file is missing or not understood.
    """
    limits = directory.limits
    torch.set_num_threads(threads_for(directory.facts.weight_bytes, len(os.sched_getaffinity(0))))
    model = LanguageModel(
        directory.llm,
        dtype=directory.manifest.plan.engine.dtype,
        slots=limits.max_batch_size,
        max_length=limits.max_seq_len,
    )
    options = EngineOptions(
        max_batch_size=limits.max_batch_size,
        max_queue_size=max_queue_size,
        max_num_tokens=limits.max_num_tokens,
        max_input_len=limits.max_input_len,
        max_seq_len=limits.max_seq_len,
        cancellation_check_seconds=cancellation_check_seconds,
    )
    return LoadedEngine(Engine(model, options), _end_ids(directory), model.vocabulary_size)


def _end_ids(directory: EngineDirectory) -> frozenset[int]:
    """Return all end tokens: newer checkpoints list several in their generation config."""
    ids = {TextCodec(directory.processor).end_id}
    path = directory.llm / GENERATION_CONFIG
    if path.is_file():
        listed = json.loads(path.read_text()).get("eos_token_id")
        ids |= set(listed if isinstance(listed, list) else [listed]) - {None}
    return frozenset(ids)
