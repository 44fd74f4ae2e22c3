"""What decoders of files must survive: jobs that never end, take everything, or break a process.

Decoders import this module by name, so their PYTHONPATH holds the folder `tests`.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.decoding.wire import HEADER

Bytes = NDArray[np.uint8]


def echo(content: bytes) -> Bytes:
    return np.frombuffer(content, np.uint8)


def black(content: bytes) -> Bytes:
    return np.zeros(int(content), np.uint8)


def process(content: bytes) -> Bytes:
    del content
    return np.array([os.getpid()], np.uint32).view(np.uint8)


def spin(content: bytes) -> Bytes:
    while True:
        del content
        content = b""


def sleep(content: bytes) -> Bytes:
    """Make a file of the name that the content is, and wait without end."""
    Path(content.decode()).touch()
    while True:
        time.sleep(60)


def fill(content: bytes) -> Bytes:
    del content
    return np.ones(4 << 30, np.uint8)


def crash(content: bytes) -> Bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return echo(content)


def leave(content: bytes) -> Bytes:
    del content
    os._exit(0)


def chatter(content: bytes) -> Bytes:
    sys.stdout.write("a library's line\n")
    sys.stdout.flush()
    os.write(1, b"another one\n")
    return echo(content)


def lie(content: bytes) -> Bytes:
    """Answer with a header of a terabyte, as broken code could."""
    del content
    header = b'{"shape": [1099511627776], "dtype": "uint8"}'
    for descriptor in range(3, 64):
        try:
            target = Path(f"/proc/self/fd/{descriptor}").readlink()
            if str(target).startswith("pipe:"):
                os.write(descriptor, HEADER.pack(len(header)) + header)
        except OSError:
            continue
    time.sleep(60)
    return np.empty(0, np.uint8)


def fail(content: bytes) -> Bytes:
    raise KeyError(len(content))


def held(folder: str, content: bytes) -> Bytes:
    """Say in a folder that it has begun, and return a red pixel once it may end."""
    del content
    Path(folder, "begun").touch()
    while not Path(folder, "end").exists():
        time.sleep(0.01)
    return np.full((1, 1, 3), (220, 20, 20), np.uint8)
