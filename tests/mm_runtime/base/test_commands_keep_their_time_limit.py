"""A command of a Job ends itself when its time is over, counted from its own start."""

import os
import subprocess
import sys

import pytest

from mm_api.contract import TIME_LIMIT_VARIABLE, ExitCode
from support.cases import cases

SECONDS = 60
"""No program here needs as long."""

OBEDIENT = """
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.base.time_limit import TimeLimit
import sys, time
with TimeLimit(0.2, grace_seconds=60) as limit, StopSignal() as stop:
    stop.wait(60)
    sys.exit(limit.code(143))
"""

DEAF = """
from mm_runtime.base.time_limit import TimeLimit
import signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
with TimeLimit(0.2, grace_seconds=0.2):
    while True:
        time.sleep(60)
"""

SIMPLE = """
from mm_runtime.base.time_limit import TimeLimit
import time
with TimeLimit(0.2, grace_seconds=60):
    time.sleep(60)
"""

IN_TIME = """
from mm_runtime.base.time_limit import TimeLimit
import sys
with TimeLimit(60) as limit:
    code = limit.code(int(sys.argv[1]))
sys.exit(code)
"""


def run(program: str, *arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], timeout=SECONDS, check=False
    ).returncode


@cases(
    "program", {"ends-after-SIGTERM": OBEDIENT, "ignores-SIGTERM": DEAF, "has-no-handler": SIMPLE}
)
def test_time_ends_a_command(program: str) -> None:
    assert run(program) == ExitCode.TIMED_OUT


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_in_time_keeps_its_code(code: int) -> None:
    assert run(IN_TIME, str(code)) == code


def test_a_limit_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mm_runtime", "inspect", "--source", "/nowhere"],
        env={**os.environ, TIME_LIMIT_VARIABLE: "soon"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == ExitCode.PERMANENT
    assert f"{TIME_LIMIT_VARIABLE}=soon is not a time limit" in done.stderr
