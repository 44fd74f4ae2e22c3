"""PURE: how the Python models before the language model are batched."""

from mm_runtime.repository.model_config import DynamicBatching, dynamic_batching
from mm_runtime.repository.values import RepositoryValues


def batching(values: RepositoryValues, *, delayed: bool = False) -> DynamicBatching:
    """Return batching up to the engine's batch, in a queue without a bound.

    With a bound Triton prepares no batch while the model computes, and may oversleep the moment
    when it is free by 0.5 s: its batcher then waits for that moment or 500 ms, and is woken before
    it has come (`default_wait_microseconds` of core's dynamic_batch_scheduler.cc, and
    `PayloadSlotAvailable` of its rate_limiter.cc; Triton 2.51). Eight requests at once took 0.5 to
    1.5 s instead of 0.04 s. What bounds requests are the gateway and the language model's queue.
    """
    delay = values.serving.max_queue_delay_microseconds if delayed else None
    return dynamic_batching(values.limits.max_batch_size, max_queue_delay_microseconds=delay)
