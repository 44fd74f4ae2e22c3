"""What an engine is given, what it reports of itself, and how its process ends."""

from collections.abc import Callable
from dataclasses import dataclass

from mm_api.documents.build_plan import EngineLimits


@dataclass(frozen=True)
class EngineOptions:
    """What bounds the engine."""

    limits: EngineLimits

    max_queue_size: int
    """Requests that wait; more are refused. 0 means without bound, as in Triton's queue policy."""

    prompt_rows: int
    """Tokens of prompts in one step beside decoding requests, while few wait."""

    grown_rows: int = 0
    """The least of them once more wait than few; see `GPU_GROWN_ROWS`."""

    cancellation_check_seconds: float = 0.02
    """How often each request is checked for a cancellation by its client."""


@dataclass(frozen=True)
class EngineCounts:
    """What the engine has done and is doing."""

    running: int
    waiting: int
    steps: int
    """Forward passes that decoded."""

    decoded_tokens: int
    """Tokens of those passes: more than `steps` when requests shared them."""


@dataclass(frozen=True)
class Ending:
    """When and how the process of an engine ends by itself."""

    lost: Callable[[Exception], bool]
    """Whether an error means that the device computes nothing more."""

    end: Callable[[Exception], None]
    """End the process; called once, after all requests have failed."""
