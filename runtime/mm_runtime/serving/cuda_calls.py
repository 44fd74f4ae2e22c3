"""Calls of CUDA's runtime library that keep the interpreter's lock.

torch gives the lock away in each of its calls. Where other threads wait for it, each of them may
run before it comes back: a tenth of the passes, of 15 such calls, took 1.7 to 2 ms to begin while
four threads made responses, 0.3 ms otherwise (docs/studies/pauses-on-a-gpu.md). These calls queue
work of the device and return at once, so that no thread waits long for the lock.

Source: "CUDA Runtime API", sections Memory Management, Event Management, Graph Management.
"""

import ctypes
import logging
from functools import cache
from typing import Any

import torch

logger = logging.getLogger(__name__)

_DEFAULT_COPY = 4
"""`cudaMemcpyDefault`: from where to where follows from the addresses."""

_NOT_READY = 600
"""`cudaErrorNotReady`."""


class CudaCalls:
    """Of the device that is current, on torch's current stream. Safe to be used from any thread."""

    def __init__(self, library: Any) -> None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self._copy = _declared(library.cudaMemcpyAsync, pointer, pointer, size, number, pointer)
        self._launch = _declared(library.cudaGraphLaunch, pointer, pointer)
        self._record = _declared(library.cudaEventRecord, pointer, pointer)
        self._query = _declared(library.cudaEventQuery, pointer)
        library.cudaGetErrorString.argtypes = (number,)
        library.cudaGetErrorString.restype = ctypes.c_char_p
        self._words = library.cudaGetErrorString
        self._forget = _declared(library.cudaGetLastError)

    def launch(self, graph: int) -> None:
        self._check(self._launch(graph, _stream()))

    def copy(self, target: int, source: int, count: int) -> None:
        """Copy so many bytes; memory of the processor is pinned, or it is waited for."""
        self._check(self._copy(target, source, count, _DEFAULT_COPY, _stream()))

    def record(self, event: Any) -> None:
        """Record an event of torch that was recorded before."""
        self._check(self._record(event.cuda_event, _stream()))

    def is_done(self, event: Any) -> bool:
        """Return whether everything before the event's last record is complete."""
        code = self._query(event.cuda_event)
        if code == _NOT_READY:
            return False
        self._check(code)
        return True

    def _check(self, code: int) -> None:
        if code:
            self._forget()  # else the next call of torch raises it, too
            raise RuntimeError(f"CUDA error: {self._words(code).decode()}")


@cache
def open_cuda_calls() -> CudaCalls | None:
    """Return the calls of the library that torch has loaded; None: torch's own are used.

    That is so for a torch without CUDA, and for one whose runtime library cannot be found.
    """
    version = torch.version.cuda
    if version is None:
        return None
    name = f"libcudart.so.{version.split('.')[0]}"
    try:
        return CudaCalls(ctypes.PyDLL(name))
    except (OSError, AttributeError) as error:
        logger.warning("passes are begun by calls of torch, which take longer: %s: %s", name, error)
        return None


def _declared(function: Any, *arguments: Any) -> Any:
    function.argtypes, function.restype = arguments, ctypes.c_int
    return function


def _stream() -> int:
    return int(torch.cuda.current_stream().cuda_stream)
