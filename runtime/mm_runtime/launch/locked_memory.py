"""How much host memory the processes of several GPUs may lock: Kubernetes has no field for it."""

import logging
import resource

log = logging.getLogger(__name__)


def report_locked_memory(ranks: int, limit: int | None = None) -> None:
    """Log a limit that NVIDIA's containers are not started with (`--ulimit memlock=-1`).

    What NCCL registers with a network adapter counts; without the limit raised it ends with
    "unhandled system error", which names neither. It comes from the node's container runtime.

    Args:
        ranks: processes that speak to each other; one alone registers nothing.
        limit: bytes; None: this process's.
    """
    if limit is None:
        limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if ranks > 1 and limit != resource.RLIM_INFINITY:
        log.warning(
            "%d ranks may lock %d KiB of memory each (ulimit -l): NCCL over a network adapter needs"
            " it unlimited, LimitMEMLOCK=infinity of the node's container runtime",
            ranks,
            limit >> 10,
        )
