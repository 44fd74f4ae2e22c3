"""Calls into Triton are made by a thread of their own, in order, and cancellations are polled."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from mm_runtime.serving.send.response_sender import (
    ResponseSender,
    ResponseSenders,
    polls_per_round,
    seconds_between_rounds,
)
from support.cases import cases
from support.eventually import eventually

SOON = 0.005
DEADLINE = 60


@dataclass
class Answer:
    """Counts its polls."""

    closed: bool = False
    polls: int = 0
    fails: bool = field(default=False)

    def poll_cancellation(self) -> None:
        self.polls += 1
        if self.fails:
            raise RuntimeError("Triton has gone")


def _make() -> ResponseSender:
    return ResponseSender(
        poll_interval_seconds=SOON, poll_within_seconds=2 * SOON, max_polls_per_round=2
    )


@pytest.fixture
def sender() -> Iterator[ResponseSender]:
    made = _make()
    yield made
    made.close()


def test_who_puts_does_not_wait(sender: ResponseSender) -> None:
    server, made = threading.Event(), list[int]()
    sender.put(lambda: made.append(int(server.wait(DEADLINE))))
    for number in (2, 3, 4):
        sender.put(lambda number=number: made.append(number))
    assert made == []
    server.set()
    sender.close()
    assert made == [1, 2, 3, 4]


def test_answers_do_not_wait_for_each_other() -> None:
    senders = ResponseSenders(_make, 2)
    one, other = senders.choose(), senders.choose()
    server, handed_over, first = threading.Event(), threading.Event(), list[bool]()
    one.put(lambda: first.append(server.wait(DEADLINE)))
    other.put(handed_over.set)
    assert handed_over.wait(DEADLINE)
    assert first == []
    server.set()
    senders.close()
    assert first == [True]
    assert senders.choose() is one


def test_a_call_that_fails_is_logged(
    sender: ResponseSender, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[int] = []
    sender.put(lambda: made.append(1 // 0))
    sender.put(lambda: made.append(2))
    sender.close()
    assert made == [2]
    assert [record.message for record in caplog.records] == ["a call into Triton failed"]


def test_open_answers_are_polled(sender: ResponseSender) -> None:
    answers = [Answer(), Answer(fails=True), Answer(), Answer()]
    for answer in answers:
        sender.watch(answer)
    eventually(lambda: min(answer.polls for answer in answers) >= 3, seconds=DEADLINE)
    answers[0].closed = True
    eventually(lambda: len(sender._open) == 3, seconds=DEADLINE)
    polls = answers[0].polls
    eventually(lambda: answers[3].polls >= 10, seconds=DEADLINE)
    assert answers[0].polls == polls


@pytest.mark.parametrize(
    ("answers", "every", "within", "polls"),
    [(0, 0.02, 0.4, 0), (1, 0.02, 0.4, 1), (8, 0.02, 0.4, 1), (21, 0.02, 0.4, 2), (9, 1, 0.4, 9)],
)
def test_polls_are_as_few_as_the_time_allows(
    answers: int, every: float, within: float, polls: int
) -> None:
    """Each is a call into Triton between two tokens: twenty rounds share the open answers."""
    assert polls == polls_per_round(answers, every, within)


@cases(
    "answers seconds",
    {"one": (1, 0.4), "some": (8, 0.05), "as-many-as-rounds": (20, 0.02), "more": (200, 0.02)},
)
def test_rounds_are_as_rare_as_the_time_allows(answers: int, seconds: float) -> None:
    """Two open answers need five polls a second, and not fifty."""
    assert seconds == seconds_between_rounds(answers, 0.02, 0.4)


def test_polls_continue_while_calls_come(sender: ResponseSender) -> None:
    """A thread that always has something to send polls cancellations, too."""
    answer, calls = Answer(), True

    def again() -> None:
        if calls:
            sender.put(again)

    sender.watch(answer)
    sender.put(again)
    try:
        eventually(lambda: answer.polls >= 3, seconds=DEADLINE)
    finally:
        calls = False
