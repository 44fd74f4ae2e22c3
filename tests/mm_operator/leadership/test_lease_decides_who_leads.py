"""What a Lease says and what follows from it, without an API server."""

from datetime import UTC, datetime
from typing import Any

from mm_operator.leadership.lease import Timing, claimed, may_take, released, sight
from support.cases import cases

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def lease(holder: str, *, version: str = "1", duration: int = 12, **spec: Any) -> dict[str, Any]:
    content = {"holderIdentity": holder, "leaseDurationSeconds": duration, **spec}
    return {"metadata": {"resourceVersion": version}, "spec": content}


@cases(
    "holder waited expected",
    {
        "mine": ("me", 0.0, True),
        "given-back": ("", 0.0, True),
        "held-by-another": ("other", 11.9, False),
        "expired": ("other", 12.0, True),
    },
)
def test_who_may_take(holder: str, waited: float, expected: bool) -> None:  # noqa: FBT001  # a parameter
    first = sight(lease(holder), None, now=100.0)
    again = sight(lease(holder), first, now=100.0 + waited)

    assert may_take(again, "me", now=100.0 + waited) is expected


def test_a_renewal_starts_the_wait_again() -> None:
    """A candidate counts from the moment it saw the record change, by its own clock."""
    first = sight(lease("other", version="1"), None, now=0.0)
    renewed = sight(lease("other", version="2"), first, now=11.0)

    assert may_take(renewed, "me", now=13.0) is False
    assert may_take(renewed, "me", now=23.0) is True


def test_renewing_keeps_what_a_take_over_changes() -> None:
    old = lease("me", acquireTime="2026-01-01T00:00:00.000000Z", leaseTransitions=3)
    mine, taken = claimed(old, "me", Timing(), NOW), claimed(old, "new", Timing(), NOW)

    assert (mine["acquireTime"], mine["leaseTransitions"]) == ("2026-01-01T00:00:00.000000Z", 3)
    assert (taken["acquireTime"], taken["leaseTransitions"]) == ("2026-01-02T03:04:05.678000Z", 4)
    assert claimed(None, "me", Timing(), NOW)["leaseTransitions"] == 0


def test_a_released_lease_can_be_taken_at_once() -> None:
    given = {"metadata": {"resourceVersion": "2"}, "spec": released(lease("me"), NOW)}

    assert may_take(sight(given, None, now=0.0), "other", now=0.0) is True


def test_the_timing_keeps_its_promises() -> None:
    """A killed leader is replaced within 10 s, and stops writing before another may start."""
    timing = Timing()

    assert timing.duration + 2 * timing.retry == 10
    assert timing.renew_deadline < timing.duration
