"""PURE: how the Python models before the language model are batched."""

from mm_runtime.repository.records import (
    DynamicBatching,
    InstanceGroup,
    InstanceKind,
    QueuePolicy,
)
from mm_runtime.repository.values import RepositoryValues

ONE_ON_CPU = (InstanceGroup(1, InstanceKind.CPU),)
"""One process a model: the encoder batches itself, text and pictures take milliseconds."""


def bounded_batching(values: RepositoryValues) -> DynamicBatching:
    """Return batching up to the engine's batch, with the queue bounded to what the engine takes.

    Without a bound a client that bypasses the gateway could fill the memory with pictures.
    """
    return DynamicBatching(
        preferred_batch_size=(values.max_batch_size,),
        queue_policy=QueuePolicy(values.requests_in_flight),
    )
