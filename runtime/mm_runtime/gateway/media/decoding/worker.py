"""A decoder's process: takes jobs from its gateway, one at a time, until the gateway has gone.

Started as `python -m mm_runtime.gateway.media.decoding.worker MEMORY_BYTES PARENT_PID`.
"""

import ctypes
import math
import os
import pickle
import resource
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

import mm_runtime.gateway.media.decoding.jobs  # noqa: F401
from mm_runtime.base.heap import return_large_pieces
from mm_runtime.gateway.media.container import BadRecordingError

# Imported before the first task, and before its memory is bounded.
from mm_runtime.gateway.media.decoding.wire import (
    READY,
    TASK,
    Array,
    Decoded,
    array_header,
    error_header,
)
from mm_runtime.images.media import BadImageError
from mm_runtime.serving.errors import RequestError

with suppress(ModuleNotFoundError):  # an image without it decodes images
    import av  # noqa: F401

_PR_SET_PDEATHSIG = 1  # prctl(2)

_job = lru_cache(pickle.loads)  # our gateway's own

_REFUSALS = (
    (BadImageError, "image"),
    (BadRecordingError, "recording"),
    (RequestError, "request"),
    (MemoryError, "memory"),
)


def main() -> None:
    """Serve one gateway."""
    memory_bytes, parent = (int(word) for word in sys.argv[1:3])
    # Ends with a gateway that was killed; one that is gone already would never say so.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the gateway's group
    # Where the container's memory is short all the same, a decoder goes and not the gateway.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    # Private writable memory: a bound of addresses would count what libraries map and never touch.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return_large_pieces()  # Pillow's blocks of 16 MiB; in the heap they stayed after a task
    # What a library prints must not stand among the answers.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    answers.write(READY)
    tasks = os.fdopen(os.dup(0), "rb")
    while len(head := tasks.read(TASK.size)) == TASK.size:
        job_bytes, file_bytes, seconds = TASK.unpack(head)
        job, content = tasks.read(job_bytes), tasks.read(file_bytes)
        if len(content) != file_bytes:
            return
        _bound_processor_time(seconds)
        header, array = _answer(job, content)
        del content
        _write(answers.fileno(), header, b"" if array is None else array.data.cast("B"))
        del array  # up to all frames of a video; the next task may come tomorrow


def _answer(job: bytes, content: bytes) -> tuple[bytes, Array | None]:
    try:
        found = _job(job)(content)
        decoded = found if isinstance(found, Decoded) else Decoded(found)
        if decoded.media_type:
            return array_header(decoded), None
        array = np.ascontiguousarray(decoded.array)
    except Exception as error:  # noqa: BLE001  # the gateway decides what becomes of it
        for kind, name in _REFUSALS:
            if isinstance(error, kind):
                return error_header(name, str(error)), None
        traceback.print_exc()
        return error_header("failure", f"{type(error).__name__}: {error}"), None
    return array_header(replace(decoded, array=array)), array if array.size else None


def _bound_processor_time(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _write(answers: int, header: bytes, array: bytes | memoryview) -> None:
    head, rest = memoryview(header), memoryview(array)
    while head or rest:
        count = os.writev(answers, [head, rest])
        head, rest = head[count:], rest[max(0, count - len(head)) :]


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
