"""Rendezvous hashing with bounded load: keys stay where they are, and no replica gets too many."""

from hypothesis import given
from hypothesis import strategies as st

from mm_api.rendezvous import order
from mm_router.placement import FACTOR, FREE, By, bound, place
from support.cases import cases

KEYS = [bytes([i, j]) for i in range(20) for j in range(20)]


def first(affinity: bytes, replicas: list[str]) -> str:
    return place(affinity, dict.fromkeys(replicas, 0), turn=0).replica


def test_a_new_replica_takes_its_share_only() -> None:
    before = {one: first(one, ["a", "b", "c"]) for one in KEYS}
    after = {one: first(one, ["a", "b", "c", "d"]) for one in KEYS}

    moved = [key for key in before if before[key] != after[key]]

    assert all(after[key] == "d" for key in moved)
    assert 60 <= len(moved) <= 140


def test_keys_of_a_replica_that_goes_move_alone() -> None:
    before = {one: first(one, ["a", "b", "c"]) for one in KEYS}
    after = {one: first(one, ["a", "b"]) for one in KEYS}

    assert all(after[key] == before[key] for key in before if before[key] != "c")


def test_a_busy_replica_passes_its_key_on() -> None:
    key = KEYS[0]
    preferred = order(key, ["a", "b", "c"])
    outstanding = {**dict.fromkeys("abc", 3 * FREE), preferred[0]: 9 * FREE}

    placement = place(key, outstanding, turn=0)

    assert (placement.replica, placement.by) == (preferred[1], By.SPILL)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40_000)), max_size=200), st.integers(1, 6)
)
def test_no_replica_has_much_more_than_the_others(
    requests: list[tuple[int, int]], replicas: int
) -> None:
    outstanding = {str(one): 0 for one in range(replicas)}
    for key, tokens in requests:
        most = bound(outstanding)
        chosen = place(KEYS[key], outstanding, turn=0).replica
        assert outstanding[chosen] < most
        outstanding[chosen] += tokens
        assert most <= max(FREE, FACTOR * sum(outstanding.values()) / replicas)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=8), st.sampled_from(KEYS))
def test_there_is_always_room(outstanding: list[int], key: bytes) -> None:
    """The bound is above the mean, so that one replica at least is below it."""
    loads = {str(number): tokens for number, tokens in enumerate(outstanding)}
    chosen = place(key, loads, turn=0)

    assert loads[chosen.replica] < bound(loads)
    assert (chosen.by == By.AFFINITY) == (chosen.replica == order(key, loads)[0])


def test_little_work_is_no_load() -> None:
    """One more request of a key joins the first, although other replicas are idle."""
    key = KEYS[0]
    replica = first(key, ["a", "b", "c", "d"])

    placement = place(key, {**dict.fromkeys("abcd", 0), replica: FREE - 1}, turn=0)

    assert (placement.replica, placement.by) == (replica, By.AFFINITY)


@cases("turn replica", {"first": (0, "a"), "second": (1, "c"), "third": (2, "c")})
def test_requests_without_a_key_go_where_least_is_to_do(turn: int, replica: str) -> None:
    """Replicas with as little to do take turns."""
    placement = place(None, {"a": 1, "b": 5, "c": 1}, turn=turn)

    assert (placement.replica, placement.by) == (replica, By.LOAD)
