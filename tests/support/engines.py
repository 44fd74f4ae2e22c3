"""The Reference engine on the tiny model: loaded once, started with the options of a test."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from mm_runtime.reference_engine.engine import Engine, EngineOptions
from mm_runtime.reference_engine.language_model import LanguageModel
from support.tiny_llava import CHECKPOINT

SLOTS = 4
MAX_LENGTH = 512
STOP_SECONDS = 60.0
"""The model is shared: no engine may still run on it when the next one starts."""

ROOMY = EngineOptions(
    max_batch_size=SLOTS,
    max_queue_size=32,
    max_num_tokens=1024,
    prompt_rows=1024,
    max_input_len=400,
    max_seq_len=MAX_LENGTH,
    cancellation_check_seconds=0.0,
)


class StartEngine(Protocol):
    """Starts an engine with changed options for the length of a `with` block."""

    def __call__(self, **changes: object) -> AbstractContextManager[Engine]:
        """Return the running engine."""


def load_language_model() -> LanguageModel:
    """Return the tiny model's language model with four slots."""
    return LanguageModel(
        CHECKPOINT, family="llava", dtype="float32", slots=SLOTS, max_length=MAX_LENGTH
    )


def engine_starter(model: LanguageModel) -> StartEngine:
    """Return a function that starts engines on a shared model, one at a time."""

    @contextmanager
    def start(**changes: object) -> Iterator[Engine]:
        engine = Engine(model, EngineOptions(**{**vars(ROOMY), **changes}))
        engine.start()
        try:
            yield engine
        finally:
            engine.stop(STOP_SECONDS)

    return start
