"""Ends a process whose GPU computes nothing more; says what a GPU lacked when a model was loaded.

CUDA fails every call of a process after some errors: an illegal access, an error of the memory, a
GPU that fell off its bus. Such a process would fail every request for ever and say that it is
ready. Its supervisor starts the server again, and the pod is replaced where no GPU is found then.

Torch is imported for a GPU only.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mm_api.documents.serving_plan import Device
from mm_runtime.base.faults import Fault, FaultKind
from mm_runtime.serving.errors import is_out_of_memory

logger = logging.getLogger(__name__)

EXIT_CODE = 1
"""Code of the process; its supervisor reads the fault."""

LONGEST = 200
"""Characters of torch's own words in a message: a condition shows the message's beginning."""


class GpuGuard:
    """Watches the GPU of one process.

    `computes`: returns whether it still does. `end`: ends the process at once, whatever its threads
    do.
    """

    def __init__(
        self, computes: Callable[[], bool], *, end: Callable[[int], None] = os._exit
    ) -> None:
        self._computes, self._end = computes, end

    def lost(self, error: Exception) -> bool:
        """Return whether an error means that the GPU is lost; a full memory does not."""
        return not is_out_of_memory(error) and not self._computes()

    def end(self, error: Exception) -> None:
        message = (
            f"this process can no longer use its GPU: {_line(error)}. The server is "
            "started again; where that finds no usable GPU, the pod is replaced"
        )
        logger.critical("%s", message)
        Fault(FaultKind.LOST, message).report()
        self._end(EXIT_CODE)


def guard_of(device: Device) -> GpuGuard:
    """Return the guard of what a model computes on; a processor is never lost."""
    if device == "CPU":
        return GpuGuard(lambda: True)
    from mm_runtime.serving.device import still_computes  # noqa: PLC0415 (see above)

    return GpuGuard(still_computes)


@contextmanager
def loading(what: str, device: Device) -> Iterator[None]:
    """Report what the GPU lacks for what is loaded in the context; errors pass through.

    `what`: is loaded, for the message.
    """
    if device == "CPU":
        yield
        return
    from mm_runtime.serving.device import GpuUnusableError, memory_left  # noqa: PLC0415

    try:
        yield
    except GpuUnusableError as error:
        Fault(FaultKind.LOST, str(error)).report()
        raise
    except Exception as error:
        if is_out_of_memory(error):
            message = (
                f"the GPU's memory is too small for {what}: {memory_left()}; torch says: "
                f"{_line(error)}"
            )
            Fault(FaultKind.OUT_OF_MEMORY, message).report()
        raise


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")[:LONGEST]
