"""Which model of a namespace sweeps a store is known without walking the store's engines."""

import random

from mm_operator.cluster.first_users import FirstUsers

PLACE = ("store", "demo")
A, B, C = (("a", "uid-a"), ("b", "uid-b"), ("c", "uid-c"))


def test_an_empty_store_has_no_users() -> None:
    """Before the first and after the last engine there is no user, in other namespaces neither."""
    users = FirstUsers()
    assert users.first(PLACE) is None
    users.add(PLACE, [B])
    assert (users.first(PLACE), users.first(("store", "other"))) == (B, None)
    users.remove(PLACE, [B])
    assert users.first(PLACE) is None


def test_the_next_one_follows_when_the_first_leaves() -> None:
    users = FirstUsers()
    for engine in ([A, B], [A], [C]):
        users.add(PLACE, engine)
    users.remove(PLACE, [A])
    assert users.first(PLACE) == A
    users.remove(PLACE, [A, B])
    assert users.first(PLACE) == C


def test_it_agrees_with_a_list_of_all_users() -> None:
    """2,000 engines that come and go at random: always the smallest of those that are there."""
    chance = random.Random(7)  # noqa: S311  # the same engines in every run
    users, there = FirstUsers(), list[list[tuple[str, str]]]()
    for _ in range(2000):
        if there and chance.random() < 0.5:
            users.remove(PLACE, there.pop(chance.randrange(len(there))))
        else:
            engine = [chance.choice((A, B, C, ("d", "uid-d")))]
            there.append(engine)
            users.add(PLACE, engine)
        everyone = [user for engine in there for user in engine]
        assert users.first(PLACE) == min(everyone, default=None)
