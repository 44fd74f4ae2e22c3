"""A child process: its end, its output and its group belong to the one who started it."""

import os
import signal
import threading

from mm_runtime.base.child_process import LINE_BYTES, TAIL_LINES, ChildProcess
from mm_runtime.base.stop_signal import StopSignal
from support.cases import cases
from support.ended import wait_until_gone
from support.eventually import eventually


def start(script: str, lines: list[str] | None = None) -> ChildProcess:
    sink = [] if lines is None else lines
    return ChildProcess(["/bin/sh", "-c", script], dict(os.environ), sink.append)


@cases(
    "script code",
    {
        "ok": ("exit 0", 0),
        "code": ("exit 7", 7),
        "terminated": ("kill -TERM $$", 143),
        "killed": ("kill -KILL $$", 137),
    },
)
def test_exit_codes_are_the_shells(script: str, code: int) -> None:
    assert code == start(script).wait(30)


def test_missing_program_is_said() -> None:
    child = ChildProcess(["/no/such/program"], dict(os.environ), lambda _: None)
    assert child.wait(30) == 127
    assert "/no/such/program" in child.tail[-1]


def test_output_is_passed_on_and_the_end_kept() -> None:
    lines: list[str] = []
    child = start("for i in $(seq 100); do echo line $i; done; echo error >&2", lines)
    child.wait(30)
    assert lines == [*(f"line {number}" for number in range(1, 101)), "error"]
    assert child.tail == lines[-TAIL_LINES:]


def test_endless_lines_are_cut() -> None:
    lines: list[str] = []
    start(f"head -c {LINE_BYTES * 2 + 5} /dev/zero | tr '\\0' x", lines).wait(30)
    assert [len(line) for line in lines] == [LINE_BYTES, LINE_BYTES, 5]


def test_polite_end() -> None:
    lines: list[str] = []
    child = start("trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done", lines)
    _wait_for(lines)
    assert child.stop(30) == 3


def test_stubborn_child_is_killed() -> None:
    lines: list[str] = []
    child = start("trap '' TERM; echo up; while :; do sleep 0.05; done", lines)
    _wait_for(lines)
    assert child.stop(0.2) == 137


def test_group_ends_with_its_leader() -> None:
    lines: list[str] = []
    child = start("sleep 1000 & echo $!", lines)
    assert child.wait(30) == 0
    wait_until_gone(int(lines[0]))


def test_wait_ends_with_a_stop_signal() -> None:
    with StopSignal() as stop:
        child = start("sleep 1000")
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        assert child.wait(30, stop) is None
        timer.join()
        assert stop.received == signal.SIGTERM
        assert child.stop(60) == 143


def test_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        assert not stop.wait(0)
        assert before != signal.getsignal(signal.SIGTERM)
    assert before == signal.getsignal(signal.SIGTERM)


def _wait_for(lines: list[str]) -> None:
    eventually(lambda: lines, seconds=60, pause_seconds=0.01)
