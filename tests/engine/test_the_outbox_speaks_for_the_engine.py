"""Calls into Triton are made by a thread of their own, in order, and clients are looked after."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from mm_runtime.serving.send.outbox import Outbox, Outboxes, looks_of_a_round
from support.eventually import eventually

SOON = 0.005
DEADLINE = 60


@dataclass
class Answer:
    """Counts the looks at it."""

    closed: bool = False
    looks: int = 0
    fails: bool = field(default=False)

    def look(self) -> None:
        """Count."""
        self.looks += 1
        if self.fails:
            raise RuntimeError("Triton has gone")


def _make() -> Outbox:
    """Return an outbox that looks at two of four open answers a round, and never at more."""
    return Outbox(looked_every_seconds=SOON, looked_within_seconds=2 * SOON, looked_at_once=2)


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    """Return one outbox."""
    made = _make()
    yield made
    made.close()


def test_who_puts_does_not_wait(outbox: Outbox) -> None:
    """While one call waits for the server, others are taken, and made in their order."""
    server, made = threading.Event(), list[int]()
    outbox.put(lambda: made.append(int(server.wait(DEADLINE))))
    for number in (2, 3, 4):
        outbox.put(lambda number=number: made.append(number))
    assert made == []
    server.set()
    outbox.close()
    assert made == [1, 2, 3, 4]


def test_answers_do_not_wait_for_each_other() -> None:
    """While a token of one answer waits for the server, those of another one are handed over."""
    outboxes = Outboxes(_make, 2)
    one, other = outboxes.choose(), outboxes.choose()
    server, handed_over, first = threading.Event(), threading.Event(), list[bool]()
    one.put(lambda: first.append(server.wait(DEADLINE)))
    other.put(handed_over.set)
    assert handed_over.wait(DEADLINE)
    assert first == []
    server.set()
    outboxes.close()
    assert first == [True]
    assert outboxes.choose() is one


def test_a_call_that_fails_is_logged(outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    """The next one is made all the same."""
    made: list[int] = []
    outbox.put(lambda: made.append(1 // 0))
    outbox.put(lambda: made.append(2))
    outbox.close()
    assert made == [2]
    assert [record.message for record in caplog.records] == ["a call into Triton failed"]


def test_open_answers_are_looked_at(outbox: Outbox) -> None:
    """All of them in turn, also after a look that failed; closed ones no more."""
    answers = [Answer(), Answer(fails=True), Answer(), Answer()]
    for answer in answers:
        outbox.watch(answer)
    eventually(lambda: min(answer.looks for answer in answers) >= 3, seconds=DEADLINE)
    answers[0].closed = True
    eventually(lambda: len(outbox._open) == 3, seconds=DEADLINE)
    looks = answers[0].looks
    eventually(lambda: answers[3].looks >= 10, seconds=DEADLINE)
    assert answers[0].looks == looks


@pytest.mark.parametrize(
    ("answers", "every", "within", "looks"),
    [(0, 0.02, 0.4, 0), (1, 0.02, 0.4, 1), (8, 0.02, 0.4, 1), (21, 0.02, 0.4, 2), (9, 1, 0.4, 9)],
)
def test_looks_are_as_few_as_the_time_allows(
    answers: int, every: float, within: float, looks: int
) -> None:
    """Each is a call into Triton between two tokens: twenty rounds share the open answers."""
    assert looks == looks_of_a_round(answers, every, within)


def test_looks_go_on_while_calls_come(outbox: Outbox) -> None:
    """A thread that always has something to send looks after clients, too."""
    answer, calls = Answer(), True

    def again() -> None:
        if calls:
            outbox.put(again)

    outbox.watch(answer)
    outbox.put(again)
    try:
        eventually(lambda: answer.looks >= 3, seconds=DEADLINE)
    finally:
        calls = False
