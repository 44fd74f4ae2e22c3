"""What ends a process that does not end by itself: a second signal, or the deadline."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from mm_operator.shutdown import DEADLINE_SECONDS
from support.cases import cases
from support.scripts import ROOT
from support.tied import tied

_SECONDS = 60.0
_START = """
import logging, sys, threading, time
from mm_operator.shutdown import hold_signals, leave_late, stop_on_signal
logging.basicConfig(stream=sys.stdout, format="%(message)s")
hold_signals()
requested = threading.Event()
def stop():
    print("requested", flush=True)
    requested.set()
"""
_OBEYS = "print('ready', flush=True); requested.wait(); sys.exit(0)"
_BLOCKED = "print('ready', flush=True); time.sleep(3600)"
_COMPUTES = "print('ready', flush=True)\nwhile True: pass"


@contextmanager
def running(*lines: str) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", "\n".join((_START, *lines))]
    with subprocess.Popen(tied(program), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert said_by(process) == "ready"
            yield process
        finally:
            process.kill()


def said_by(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_the_first_signal_requests_the_end(number: signal.Signals) -> None:
    with running("stop_on_signal(stop, seconds=3600)", _OBEYS) as process:
        process.send_signal(number)

        assert process.wait(_SECONDS) == 0


@cases("body", {"blocked": _BLOCKED, "computing": _COMPUTES})
def test_the_second_signal_ends_at_once(body: str) -> None:
    """Also a process whose main thread does not come round to anything."""
    with running("stop_on_signal(stop, seconds=3600)", body) as process:
        process.send_signal(signal.SIGTERM)
        assert said_by(process) == "requested"
        process.send_signal(signal.SIGTERM)

        assert said_by(process) == "a second signal: leaving without clean-up"
        assert process.wait(_SECONDS) == 1


@cases("body", {"blocked": _BLOCKED, "computing": _COMPUTES})
def test_the_deadline_ends_what_does_not_stop(body: str) -> None:
    """One signal is enough, whatever the main thread does."""
    with running("stop_on_signal(stop, seconds=0.1)", body) as process:
        process.send_signal(signal.SIGTERM)

        assert said_by(process) == "requested"
        assert said_by(process) == "not stopped 0.1 s after SIGTERM: leaving without clean-up"
        assert process.wait(_SECONDS) == 1


def test_a_stop_without_a_signal_is_bounded_too() -> None:
    """A part failed and the others do not end: the next replica must not wait for them."""
    with running("leave_late(seconds=0.1)", _BLOCKED) as process:
        expected = "not stopped 0.1 s after a part failed: leaving without clean-up"
        assert said_by(process) == expected
        assert process.wait(_SECONDS) == 1


def test_the_deadline_is_shorter_than_what_the_kubelet_grants() -> None:
    """The pod ends by itself, and within 10 s."""
    chart = ROOT / "charts" / "multimodal-operator" / "templates" / "operator" / "deployment.yaml"
    lines = (line for line in chart.read_text().splitlines() if "terminationGracePeriod" in line)
    granted = yaml.safe_load(next(lines))["terminationGracePeriodSeconds"]

    assert min(10, granted) > DEADLINE_SECONDS + 1
