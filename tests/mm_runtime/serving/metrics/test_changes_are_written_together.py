"""Metrics of Triton's models are written together, and a busy model never looks idle."""

import threading
from dataclasses import dataclass, field

import pytest

from mm_runtime.serving.metrics.collected import Changes, Counter, Gauge
from support.eventually import eventually

SECONDS = 60.0

NEVER = 3600.0
"""Seconds for which changes are collected: only `close` writes them."""


@dataclass
class Page:
    """Keeps what is written of one metric, as Triton's object passes it on."""

    written: list[float] = field(default_factory=list)
    fails: bool = False

    def set(self, value: float) -> None:
        self._take(value)

    def increment(self, value: float) -> None:
        self._take(value)

    def _take(self, value: float) -> None:
        if self.fails:
            raise RuntimeError("the server is gone")
        self.written.append(value)


@dataclass
class Halting:
    """A write that waits for the end to be announced."""

    writing: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)


def test_a_counter_is_written_once_for_many_changes() -> None:
    page, changes = Page(), Changes(collected_seconds=NEVER)
    counter = Counter(page, changes)
    for _ in range(5):
        counter.increment(2)
    counter.increment(0)
    assert page.written == []

    changes.close()

    assert page.written == [10]


def test_changes_are_written_while_the_process_lives() -> None:
    page, changes = Page(), Changes(collected_seconds=0.001)
    counter = Counter(page, changes)
    for total in (1, 2, 3):
        counter.increment(1)
        eventually(lambda total=total: sum(page.written) == total)

    changes.close()

    assert sum(page.written) == 3


def test_nothing_added_is_nothing_written() -> None:
    page, changes = Page(), Changes(collected_seconds=NEVER)
    Counter(page, changes).increment(0)

    changes.close()

    assert page.written == []


def test_work_is_shown_at_once_and_its_end_later() -> None:
    """A server that has work is never shown without: it would be stopped."""
    page, changes = Page(), Changes(collected_seconds=NEVER)
    gauge = Gauge(page, changes)
    for value in (1, 2, 1, 0, 1):
        gauge.set(value)
    assert page.written == [1]

    gauge.set(0)
    changes.close()

    assert page.written == [1, 0]


def test_the_first_value_is_written() -> None:
    """A process that died may have left another one on the page."""
    page, changes = Page(), Changes(collected_seconds=NEVER)
    Gauge(page, changes).set(0)
    assert page.written == [0]

    changes.close()


def test_an_ended_series_writes_nothing() -> None:
    """Triton's object is let go of, whatever changes later."""
    page, changes = Page(), Changes(collected_seconds=NEVER)
    counter, gauge = Counter(page, changes), Gauge(page, changes)
    counter.end()
    gauge.end()
    counter.increment(1)
    gauge.set(1)

    changes.close()

    assert page.written == []


def test_one_metric_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    broken, page, changes = Page(fails=True), Page(), Changes(collected_seconds=NEVER)
    Counter(broken, changes).increment(1)
    Counter(page, changes).increment(1)

    changes.close()

    assert page.written == [1]
    assert "could not be written" in caplog.text


def test_threads_lose_no_change() -> None:
    page, changes = Page(), Changes(collected_seconds=0)
    counter = Counter(page, changes)
    threads = [
        threading.Thread(target=lambda: [counter.increment(1) for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    changes.close()

    assert sum(page.written) == 4000


def test_it_ends_beside_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that began before the end clears what wakes the thread, which ends all the same."""
    page, changes = Page(), Changes(collected_seconds=0)
    halting, write = Halting(), changes._write
    set_again = changes._some.set

    def end() -> None:
        set_again()
        halting.closed.set()

    def written() -> None:
        if threading.current_thread() is changes._thread:
            halting.writing.set()
            assert halting.closed.wait(SECONDS)
        write()

    monkeypatch.setattr(changes, "_write", written)
    Counter(page, changes).increment(1)
    assert halting.writing.wait(SECONDS)
    monkeypatch.setattr(changes._some, "set", end)
    closing = threading.Thread(target=changes.close, daemon=True)
    closing.start()
    closing.join(SECONDS)

    assert not closing.is_alive()
    assert page.written == [1]
