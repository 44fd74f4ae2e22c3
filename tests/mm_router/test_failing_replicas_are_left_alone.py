"""A replica that fails is ejected, then tried with one request; times double up to a limit."""

from mm_router.ejection import ERRORS, FIRST_SECONDS, LONGEST_SECONDS, Ejections, Failure
from support.cases import cases

REPLICAS = ["a", "b"]


def ejected(failure: Failure = Failure.UNREACHABLE) -> Ejections:
    known = Ejections()
    assert known.failed("a", failure, 0.0)
    return known


@cases("failure", {"no-connection": Failure.UNREACHABLE, "connection-ended": Failure.BROKEN})
def test_connections_that_fail_eject_at_once(failure: Failure) -> None:
    assert ejected(failure).choosable(REPLICAS, 0.5) == ["b"]


def test_errors_eject_when_they_come_in_a_row() -> None:
    known = Ejections()
    for _ in range(ERRORS - 1):
        assert not known.failed("a", Failure.ERRORS, 0.0)
    known.answered("a")
    for _ in range(ERRORS - 1):
        assert not known.failed("a", Failure.ERRORS, 0.0)

    assert known.choosable(REPLICAS, 0.0) == REPLICAS
    assert known.failed("a", Failure.ERRORS, 0.0)
    assert known.choosable(REPLICAS, 0.0) == ["b"]


def test_one_request_tries_a_replica_whose_time_is_over() -> None:
    """No other request goes there meanwhile; its answer brings the replica back."""
    known = ejected()
    assert known.choosable(REPLICAS, FIRST_SECONDS) == REPLICAS

    known.chosen("a")
    assert known.choosable(REPLICAS, FIRST_SECONDS) == ["b"]

    known.answered("a")
    assert known.choosable(REPLICAS, FIRST_SECONDS) == REPLICAS
    assert known.ejected() == 0


def test_a_trial_that_shows_nothing_is_repeated() -> None:
    """A client that left says nothing about its replica."""
    known = ejected()
    known.chosen("a")

    known.left("a")

    assert known.choosable(REPLICAS, FIRST_SECONDS) == REPLICAS


def test_times_double_up_to_a_limit() -> None:
    known, now, seconds = ejected(), FIRST_SECONDS, [FIRST_SECONDS]
    for _ in range(8):
        known.chosen("a")
        assert known.failed("a", Failure.UNREACHABLE, now)
        lasted = next(s for s in (2.0**n for n in range(9)) if _is_back(known, now, s))
        seconds.append(lasted)
        now += lasted

    assert seconds == sorted(seconds)
    assert seconds[1:5] == [2.0, 4.0, 8.0, 16.0]
    assert not known.choosable(["a"], now) or seconds[-1] <= 2 * LONGEST_SECONDS


def test_failures_of_one_moment_count_once() -> None:
    known = ejected(Failure.BROKEN)
    for _ in range(9):
        assert not known.failed("a", Failure.BROKEN, 0.1)

    assert known.choosable(REPLICAS, FIRST_SECONDS) == REPLICAS


def test_where_all_are_ejected_all_may_be_chosen() -> None:
    """A wrong guess about every replica must not make an outage."""
    known = ejected()
    known.failed("b", Failure.UNREACHABLE, 0.0)

    assert known.choosable(REPLICAS, 0.5) == REPLICAS


def test_replicas_that_are_gone_are_forgotten() -> None:
    known = ejected()

    known.keep(["b"])

    assert (known.ejected(), known.choosable(REPLICAS, 0.5)) == (0, REPLICAS)


def _is_back(known: Ejections, now: float, seconds: float) -> bool:
    return "a" in known.choosable(REPLICAS, now + seconds)
