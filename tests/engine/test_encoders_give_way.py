"""Where encoder and answers share cores, the encoder takes what is left of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mm_runtime.engine.core_share import LATER
from support.served import Served

_PROGRAM = """
import os, threading
from mm_runtime.engine.core_share import give_way
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(2)]
threads[0].start()
give_way()
threads[1].start()
print(*(os.getpriority(os.PRIO_PROCESS, int(one)) for one in os.listdir("/proc/self/task")))
end.set()
"""


def test_every_thread_gives_way() -> None:
    """Threads from before and after have the same place behind others."""
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    later = min(os.getpriority(os.PRIO_PROCESS, 0) + LATER, 19)
    assert [str(later)] * 3 == done.stdout.split()


def _niceness(served: Served) -> dict[str, set[int]]:
    """Return the niceness of the threads of each model's process."""
    server = Path(f"/proc/{served.server_pid}/task")
    children = " ".join((task / "children").read_text() for task in server.iterdir()).split()
    found = {}
    for pid in children:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if words[0].endswith("_stub"):
            threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
            model = Path(words[1]).parent.parent.name
            found[model] = {os.getpriority(os.PRIO_PROCESS, one) for one in threads}
    return found


@pytest.mark.triton
def test_encoder_of_a_real_server_gives_way(served: Served) -> None:
    """Its process is behind the language model's, which is where the server itself is."""
    own = os.getpriority(os.PRIO_PROCESS, served.server_pid)
    found = _niceness(served)
    assert found["multimodal_encoders"] == {min(own + LATER, 19)}
    assert found["tensorrt_llm"] == {own}
