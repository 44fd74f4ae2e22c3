"""Tests wait by one helper, which fails the test when its time is up."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator

import pytest

from support.cases import cases
from support.eventually import eventually, eventually_async

NEVER: dict[str, Callable[[], object]] = {
    "false": list,
    "assertion": lambda: _raise(AssertionError("kubectl: not found")),
    "missing-field": lambda: {}["status"],
    "closed-port": lambda: _raise(ConnectionRefusedError("refused")),
    "no-answer-in-time": lambda: _raise(subprocess.TimeoutExpired("kubectl", 1)),
}


@cases(
    "case last",
    {
        "false": ("false", "the last answer was []"),
        "assertion": ("assertion", "kubectl: not found"),
        "missing-field": ("missing-field", "KeyError('status')"),
        "closed-port": ("closed-port", "refused"),
        "no-answer-in-time": ("no-answer-in-time", "TimeoutExpired"),
    },
)
async def test_what_never_comes_fails_the_test(case: str, last: str) -> None:
    """Both forms raise at the end of their time and name the last answer or error."""
    query = NEVER[case]
    with pytest.raises(AssertionError, match=r"not within 0\.05 s") as found:
        eventually(query, seconds=0.05, pause_seconds=0.01)
    assert last in str(found.value)

    with pytest.raises(AssertionError, match=r"not within 0\.05 s") as found:
        await eventually_async(query, seconds=0.05, pause_seconds=0.01)
    assert last in str(found.value)


def test_the_state_at_the_end_is_shown() -> None:
    """What a wait shows is queried when its time is up, not when it starts."""
    states = ["before"]

    def query() -> bool:
        states.append("after")
        return False

    with pytest.raises(AssertionError, match="False: after"):
        eventually(query, seconds=0, pause_seconds=0, showing=lambda: states[-1])


async def test_an_answer_is_returned_once_it_is_true() -> None:
    answers: Iterator[int | Exception] = iter([0, LookupError("not there"), 0, 7, 8])

    def query() -> int:
        answer = next(answers)
        return answer if isinstance(answer, int) else _raise(answer)

    assert eventually(query, pause_seconds=0) == 7
    answers = iter([0, LookupError("not there"), 9, 10])
    await eventually_async(query, pause_seconds=0)
    assert list(answers) == [10]


async def test_a_question_that_hangs_is_ended() -> None:
    """The deadline holds inside an awaited question too."""

    async def hangs() -> bool:
        return await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="no answer came"):
        await eventually_async(hangs, seconds=0.05)


async def test_errors_of_a_test_are_raised_at_once() -> None:
    """What is no "not yet" ends the wait: a slip in a question must not cost its entire time."""
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        await eventually_async(lambda: 1 // 0)


def _raise(error: Exception) -> int:
    raise error
