"""Python's own count of what a process holds, written by the process each ten seconds.

On the path of processes of `system_soak.py` only (`PYTHONPATH`): no other program reads it.
"""

import gc
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

_SECONDS = 10
_ROUNDS_OF_TYPES = 60
"""Objects by type are counted each ten minutes: a pause of some 20 ms."""


def _count(folder: Path) -> None:
    # The operator waits for its signals in a thread of its own (mm_operator.shutdown).
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    name, rounds = str(os.getpid()), 0
    while True:
        time.sleep(_SECONDS)
        if os.environ.get("MM_SOAK_COLLECT"):
            gc.collect()
        partial = folder / f"{name}.next"
        partial.write_text(str(sys.getallocatedblocks()))
        partial.replace(folder / name)
        rounds += 1
        if rounds % _ROUNDS_OF_TYPES == 0:
            found = Counter(type(one).__qualname__ for one in gc.get_objects())
            text = "\n".join(f"{number} {kind}" for kind, number in found.most_common(60))
            (folder / f"{name}.types-{rounds // _ROUNDS_OF_TYPES}").write_text(text)


if (_folder := os.environ.get("MM_SOAK_COUNTS")) and Path(_folder).is_dir():
    threading.Thread(target=_count, args=(Path(_folder),), daemon=True).start()
