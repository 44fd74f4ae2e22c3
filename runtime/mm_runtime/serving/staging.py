"""Memory of the processor that a device copies from and to, again and again.

One thread uses each. For a GPU the memory is pinned, so that copies are not waited for.
"""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray

from mm_runtime.serving.cuda_calls import open_cuda_calls

STAGED = 4
"""Arrays of a `Staging`: one pass computes, one is begun ahead, one is described, and one is for a
prompt that takes several passes. With fewer, describing waits for a copy."""


class Staging:
    """Memory through which a tensor of a device is written."""

    def __init__(self, target: torch.Tensor) -> None:
        """Take as much memory as a tensor [n] has, some times."""
        gpu = target.is_cuda
        self._target, self._calls = target, open_cuda_calls() if gpu else None
        self._buffers = [
            torch.zeros(target.shape, dtype=target.dtype, pin_memory=gpu)
            for _ in range(STAGED if gpu else 1)
        ]
        self._copied = [_recorded() for _ in self._buffers] if gpu else []
        self._arrays = [buffer.numpy() for buffer in self._buffers]
        self._places = [buffer.data_ptr() for buffer in self._buffers]
        self._at = 0

    @property
    def array(self) -> NDArray[Any]:
        return self._arrays[self._at]

    def next(self) -> NDArray[Any]:
        """Return the next array to be written, once no copy reads it any more."""
        self._at = (self._at + 1) % len(self._buffers)
        if self._copied:
            copied = self._copied[self._at]
            if self._calls is None or not self._calls.is_done(copied):
                copied.synchronize()
        return self.array

    def send(self, count: int) -> None:
        """Copy the first elements; what the device computes is not waited for."""
        if self._calls is not None:
            size = count * self._target.element_size()
            self._calls.copy(self._target.data_ptr(), self._places[self._at], size)
            self._calls.record(self._copied[self._at])
            return
        self._target[:count].copy_(self._buffers[self._at][:count], non_blocking=True)
        if self._copied:
            self._copied[self._at].record()


class Fetching:
    """Memory through which a tensor of a device is read; one copy at a time."""

    def __init__(self, source: torch.Tensor) -> None:
        """Take as much memory as a tensor [n] has."""
        gpu = source.is_cuda
        self._source, self._calls = source, open_cuda_calls() if gpu else None
        self._buffer = torch.zeros(source.shape, dtype=source.dtype, pin_memory=gpu)
        self._array = self._buffer.numpy()
        self._copied = _recorded() if gpu else None

    def begin(self, first: int, count: int) -> Callable[[], list[Any]]:
        """Begin to copy some elements; return what waits for that and returns their values.

        What the device is given after this call is not waited for.
        """
        part, copied = slice(first, first + count), self._copied
        if self._calls is not None:
            size = self._source.element_size()
            target, source = self._buffer.data_ptr(), self._source.data_ptr()
            self._calls.copy(target + first * size, source + first * size, count * size)
            self._calls.record(copied)
        else:
            self._buffer[part].copy_(self._source[part], non_blocking=True)
            if copied is not None:
                copied.record()

        def fetched() -> list[Any]:
            if copied is not None:
                copied.synchronize()
            values: list[Any] = self._array[part].tolist()
            return values

        return fetched


def _recorded() -> Any:
    """Return an event that was recorded: it exists from then on."""
    new_event: Any = torch.cuda.Event
    event = new_event()
    event.record()
    return event
