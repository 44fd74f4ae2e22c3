"""Whose turn it is to roll out what the operator changed: the least used first, few at a time."""

import heapq
import random
from collections.abc import Callable, Iterable

import pytest

from mm_operator.cluster import rollout_turns
from mm_operator.cluster.keys import Key
from mm_operator.cluster.rollout_turns import RolloutTurns
from mm_operator.model import RolloutTurn


def key(name: str) -> Key:
    return Key("demo", name)


class Fleet:
    """Models that want to roll out, reconciled when they are woken."""

    def __init__(self, most: int, **uses: float) -> None:
        self.queue: list[Key] = []
        self.turns = RolloutTurns(most, self.queue.append)
        self.uses = {key(name): use for name, use in uses.items()}
        self.waiting = set(self.uses)
        self.rolling: list[str] = []
        self.failures: dict[str, str] = {}

    def lead(self, order: Iterable[str]) -> None:
        self.turns.restart(map(key, order))
        for name in order:
            self.reconcile(key(name))
        self.settle()

    def reconcile(self, model: Key) -> None:
        if model in self.waiting and self.turns.turn(model).granted:
            self.waiting.discard(model)
            self.rolling.append(model.name)
        rolls = model.name in self.rolling
        failure = self.failures.get(model.name, "")
        waits = model in self.waiting
        self.turns.note(model, RolloutTurn(waits, rolls, failure, self.uses[model]))

    def settle(self) -> None:
        for _ in range(1000):
            if not self.queue:
                return
            self.reconcile(self.queue.pop(0))
        raise AssertionError("models wake each other without end")

    def complete(self, name: str) -> None:
        self.rolling.remove(name)
        self.failures.pop(name, None)
        self.reconcile(key(name))
        self.settle()

    def fail(self, name: str, failure: str) -> None:
        self.failures[name] = failure
        self.reconcile(key(name))
        self.settle()


def test_the_least_used_goes_first_whatever_the_order() -> None:
    fleet = Fleet(1, busy=9.0, idle=0.0, some=2.5)
    fleet.turns.restart([key("busy"), key("idle"), key("some")])
    fleet.reconcile(key("busy"))
    fleet.reconcile(key("some"))
    fleet.settle()
    assert fleet.rolling == []
    fleet.reconcile(key("idle"))
    fleet.settle()
    went = []
    while fleet.rolling:
        assert len(fleet.rolling) == 1
        went.append(fleet.rolling[0])
        fleet.complete(fleet.rolling[0])
    assert went == ["idle", "some", "busy"]


def test_so_many_roll_at_a_time() -> None:
    fleet = Fleet(2, a=1, b=2, c=3, d=4)
    fleet.lead("dcba")
    assert fleet.rolling == ["a", "b"]
    fleet.complete("b")
    assert fleet.rolling == ["a", "c"]


def test_a_failure_stops_the_others_and_is_named() -> None:
    fleet = Fleet(2, a=1, b=2, c=3, d=4)
    fleet.lead("abcd")
    fleet.fail("b", "its pods crash")
    fleet.complete("a")
    assert fleet.rolling == ["b"]
    assert fleet.turns.turn(key("c")).failing == "demo/b"
    fleet.failures.clear()  # its pods start once more: the rollout is as little complete
    fleet.reconcile(key("b"))
    fleet.settle()
    assert fleet.rolling == ["b"]
    fleet.complete("b")
    assert fleet.rolling == ["c", "d"]
    assert fleet.turns.turn(key("d")).failing == ""


def test_a_failed_one_may_take_the_next_revision() -> None:
    """An upgrade that repairs it reaches the model whose rollout failed, although all stopped."""
    fleet = Fleet(1, a=1, b=2)
    fleet.lead("ab")
    fleet.fail("a", "its pods crash")
    fleet.waiting.add(key("a"))
    assert fleet.turns.turn(key("a")).granted
    assert not fleet.turns.turn(key("b")).granted


def test_a_new_leader_continues() -> None:
    """What rolls is found in Deployments: another one begins only once it is complete."""
    fleet = Fleet(1, a=1, b=2)
    fleet.lead("ab")
    fleet.turns = RolloutTurns(1, fleet.queue.append)
    fleet.lead("ba")
    assert fleet.rolling == ["a"]
    fleet.complete("a")
    assert fleet.rolling == ["b"]


def test_a_deleted_model_gives_its_turn_up() -> None:
    """A model that goes while it rolls, or before it was seen, keeps no other one waiting."""
    fleet = Fleet(1, a=1, b=2)
    fleet.turns.restart([key("a"), key("b"), key("gone")])
    fleet.reconcile(key("a"))
    fleet.reconcile(key("b"))
    fleet.turns.note(key("gone"), RolloutTurn())
    fleet.settle()
    assert fleet.rolling == ["a"]
    fleet.turns.note(key("a"), RolloutTurn())
    fleet.settle()
    assert "b" in fleet.rolling


def test_a_model_that_cannot_be_looked_at_is_waited_for() -> None:
    """It may be the one that rolls; after some tries the others no longer wait for it."""
    fleet = Fleet(1, a=1)
    fleet.turns.restart([key("a"), key("odd")])
    fleet.reconcile(key("a"))
    for _ in range(4):
        fleet.turns.missed(key("odd"))
        fleet.settle()
    assert fleet.rolling == []
    fleet.turns.missed(key("odd"))
    fleet.settle()
    assert fleet.rolling == ["a"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    steps = [0]

    def push(heap: list[tuple[float, Key]], item: tuple[float, Key]) -> None:
        steps[0] += len(heap).bit_length()
        heapq.heappush(heap, item)

    def pop(heap: list[tuple[float, Key]]) -> tuple[float, Key]:
        steps[0] += len(heap).bit_length()
        return heapq.heappop(heap)

    def rebuilt(items: Iterable[tuple[float, Key]]) -> list[tuple[float, Key]]:
        made = sorted(items)
        steps[0] += len(made)
        return made

    monkeypatch.setattr(rollout_turns, "heapq", type("H", (), {"heappush": push, "heappop": pop}))
    monkeypatch.setattr(rollout_turns, "sorted", rebuilt, raising=False)
    return lambda: steps[0]


def test_a_reconcile_costs_no_walk(counted: Callable[[], int]) -> None:
    """2,000 models wait, each is reconciled ten times and its use changes: some steps a time."""
    chance = random.Random(7)  # noqa: S311  # the same numbers in every run
    turns = RolloutTurns(1, lambda _key: None)
    keys = [key(f"m{number}") for number in range(2000)]
    turns.restart([])
    for _ in range(10):
        for one in keys:
            turns.turn(one)
            turns.note(one, RolloutTurn(waits=True, use=chance.random()))
    assert counted() / (10 * len(keys)) < 40
