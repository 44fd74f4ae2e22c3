"""Rendezvous hashing with bounded load: keys stay where they are, and no replica gets too many."""

from hypothesis import given
from hypothesis import strategies as st

from mm_api.rendezvous import order
from mm_router.demand import Work
from mm_router.fleet import Fleet
from mm_router.hold import HoldLimits, Holds
from mm_router.metrics import RouterMetrics
from mm_router.placement import FREE, By, Placement, bound, place
from support.cases import cases

KEYS = [bytes([i, j]) for i in range(20) for j in range(20)]


def first(affinity: bytes, replicas: list[str]) -> str:
    return place(affinity, dict.fromkeys(replicas, 0), turn=0).replica


def test_keys_of_a_replica_that_comes_or_goes_move_alone() -> None:
    before = {one: first(one, ["a", "b", "c"]) for one in KEYS}
    after = {one: first(one, ["a", "b", "c", "d"]) for one in KEYS}

    moved = [key for key in before if before[key] != after[key]]

    assert all(after[key] == "d" for key in moved)
    assert 60 <= len(moved) <= 140


@cases(
    "first_has others_have chosen by",
    {
        "little-work-is-no-load": (FREE - 1, 0, 0, By.AFFINITY),
        "busy": (9 * FREE, 3 * FREE, 1, By.SPILL),
    },
)
def test_a_busy_replica_passes_its_key_on(
    first_has: int, others_have: int, chosen: int, by: By
) -> None:
    preferred = order(KEYS[0], ["a", "b", "c"])
    outstanding = {**dict.fromkeys("abc", others_have), preferred[0]: first_has}

    assert place(KEYS[0], outstanding, turn=0) == Placement(preferred[chosen], by)


@cases("kept replicas", {"saves-much": (FREE // 3, 1), "saves-little": (FREE // 5, 2)})
def test_known_images_are_worth_waiting_for(kept: int, replicas: int) -> None:
    """The first replica has all work of the first request and most of the second, if it gets it."""
    metrics = RouterMetrics()
    fleet = Fleet(metrics, Holds(HoldLimits(0, 0, 0.0), metrics, float), float)
    fleet.set_replicas(("blue", "llava"), ["a", "b", "c"])
    visits = [fleet.choose(("blue", "llava"), KEYS[0], Work(FREE, 0, kept)) for _ in range(2)]

    assert len({visit.replica for visit in visits if visit is not None}) == replicas


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=8), st.sampled_from(KEYS))
def test_there_is_always_room(outstanding: list[int], key: bytes) -> None:
    """The bound is above the mean, so that one replica at least is below it."""
    loads = {str(number): tokens for number, tokens in enumerate(outstanding)}
    chosen = place(key, loads, turn=0)

    assert loads[chosen.replica] < bound(loads)
    assert (chosen.by == By.AFFINITY) == (chosen.replica == order(key, loads)[0])


@cases("turn replica", {"first": (0, "a"), "second": (1, "c"), "third": (2, "c")})
def test_requests_without_a_key_go_where_least_is_to_do(turn: int, replica: str) -> None:
    """Replicas with as little to do take turns."""
    placement = place(None, {"a": 1, "b": 5, "c": 1}, turn=turn)

    assert (placement.replica, placement.by) == (replica, By.LOAD)
