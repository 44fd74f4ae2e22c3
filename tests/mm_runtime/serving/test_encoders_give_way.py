"""Where encoder and answers share cores, the encoder takes what is left of them."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mm_runtime.serving.encode.shares import LATER
from support.served import Served

_PROGRAM = """
import os, threading
from mm_runtime.serving.encode.shares import lower_priority
end = threading.Event()
before, after = [threading.Thread(target=end.wait) for _ in range(2)]
before.start()
lower_priority()
after.start()
for thread in (threading.main_thread(), before, after):
    print(os.getpriority(os.PRIO_PROCESS, thread.native_id))
end.set()
"""

LAST = 19
"""The kernel's bound."""


def test_only_what_computes_gives_way() -> None:
    """The caller and threads that it starts later are behind; a thread from before is not."""
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    later = min(own + LATER, LAST)
    assert [later, own, later] == [int(one) for one in done.stdout.split()]


def _niceness(served: Served) -> dict[str, set[int]]:
    stubs = [one for one in psutil.Process(served.server_pid).children() if "stub" in one.name()]
    return {
        Path(one.cmdline()[1]).parent.parent.name: {
            os.getpriority(os.PRIO_PROCESS, thread.id) for thread in one.threads()
        }
        for one in stubs
    }


@pytest.mark.triton
def test_encoder_of_a_real_server_gives_way(served: Served) -> None:
    own = os.getpriority(os.PRIO_PROCESS, served.server_pid)
    found = _niceness(served)
    assert {own, min(own + LATER, LAST)} == found["multimodal_encoders"]
    assert {own} == found["tensorrt_llm"]
