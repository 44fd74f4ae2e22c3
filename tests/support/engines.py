"""The Reference engine on the tiny model: loaded once, started with the options of a test."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from mm_api.documents.build_plan import EngineLimits
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.options import EngineOptions
from support.tiny_llava import CHECKPOINT

SLOTS = 4
MAX_LENGTH = 512
STOP_SECONDS = 60.0
"""The model is shared: no engine may still run on it when the next one starts."""

AMPLE_OPTIONS = EngineOptions(
    limits=EngineLimits(
        max_batch_size=SLOTS,
        max_input_len=400,
        max_seq_len=MAX_LENGTH,
        max_num_tokens=1024,
        max_beam_width=1,
        max_images_per_request=0,
        max_multimodal_len=0,
    ),
    max_queue_size=32,
    prompt_rows=1024,
    cancellation_check_seconds=0.0,
)


def changed(**changes: Any) -> EngineOptions:
    limits = {name: changes.pop(name) for name in EngineLimits.model_fields if name in changes}
    return replace(AMPLE_OPTIONS, limits=AMPLE_OPTIONS.limits.model_copy(update=limits), **changes)


class StartEngine(Protocol):
    """Starts an engine with changed options for the length of a `with` block."""

    def __call__(self, **changes: object) -> AbstractContextManager[Engine]:
        """Return the running engine."""


def tiny_checkpoint(**more: Any) -> Checkpoint:
    given = {"dtype": "float32", "slots": SLOTS, "max_length": MAX_LENGTH, **more}
    return Checkpoint(folder=CHECKPOINT, family="llava", **given)


def load_language_model() -> LanguageModel:
    return LanguageModel(tiny_checkpoint())


def engine_starter(model: SlotModel) -> StartEngine:
    return lambda **changes: started(Engine(model, changed(**changes)))


@contextmanager
def started(engine: Engine, *report: Any, **given: Any) -> Iterator[Engine]:
    engine.start(*report, **given)
    try:
        yield engine
    finally:
        engine.stop(STOP_SECONDS)
