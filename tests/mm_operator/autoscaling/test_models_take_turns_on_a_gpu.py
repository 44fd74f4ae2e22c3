"""Models of a slot: one at a time, sticky, the oldest request first, none for ever."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from mm_operator.autoscaling import SlotMember, take_turns
from support.cases import cases

A = SlotMember("a", 1, 1, started_at=0, ready_at=100, start_seconds=60)
B, C = SlotMember("b", 0, 0), SlotMember("c", 0, 0)


def waits(member: SlotMember, since: float) -> SlotMember:
    return replace(member, replicas=0, pods=0, ready_at=None, held=2, held_since=since)


@cases(
    "members at expected",
    {
        "no-request-waits": ((A, B), 9e9, {}),
        "residency": ((A, waits(B, 90)), 159, {"b": "SlotBusy"}),
        "its-time-is-over": ((A, waits(B, 90)), 160, {"a": "SlotGivenUp", "b": "SlotBusy"}),
        "never-ready": (
            (replace(A, ready_at=None), waits(B, 1)),
            600,
            {"a": "SlotGivenUp", "b": "SlotBusy"},
        ),
        "starts": ((replace(A, ready_at=None), waits(B, 1)), 599, {"b": "SlotBusy"}),
        "pod-ends": ((replace(A, replicas=0), waits(B, 90)), 160, {"b": "SlotBusy"}),
        "oldest-first": ((waits(B, 90), waits(C, 80)), 160, {"b": "SlotBusy"}),
        "two-with-replicas": ((replace(C, replicas=1), A), 160, {"c": "SlotBusy"}),
    },
)
def test_one_has_the_gpu(
    members: tuple[SlotMember, ...], at: float, expected: dict[str, str]
) -> None:
    found = take_turns("shared", members, at)
    assert {name: str(one.reason) for name, one in found.items()} == expected
    assert {one.replicas for one in found.values()} <= {0}


@dataclass
class Simulated:
    """A model whose pod takes a time to start and another one to end; one request a number."""

    name: str
    starts: int
    ends: int
    replicas: int = 0
    started: int = 0
    ended: int = -1
    """When its last pod has gone."""
    requests: list[int] = field(default_factory=list)

    def ready(self, at: int) -> bool:
        return bool(self.replicas) and at >= self.started + self.starts

    def member(self, at: int) -> SlotMember:
        waiting = [] if self.replicas else [one for one in self.requests if one <= at]
        return SlotMember(
            self.name,
            self.replicas,
            int(self.replicas or at < self.ended),
            held=len(waiting),
            held_since=min(waiting, default=None),
            started_at=self.started if self.replicas else None,
            ready_at=self.started + self.starts if self.ready(at) else None,
            start_seconds=self.starts,
        )


MODELS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 9), st.lists(st.integers(0, 150), max_size=4)),
    min_size=2,
    max_size=3,
)


@given(models=MODELS)
def test_every_request_is_answered_in_its_turn(
    models: list[tuple[int, int, list[int]]],
) -> None:
    fleet = [
        Simulated(str(number), starts, ends, requests=list(requests))
        for number, (starts, ends, requests) in enumerate(models)
    ]
    round_seconds = sum(max(30, one.starts) + one.starts + one.ends + 3 for one in fleet)
    for at in range(150 + round_seconds):
        members = [one.member(at) for one in fleet]
        turns = take_turns("shared", members, at)
        for one, member in zip(fleet, members, strict=True):
            if one.name in turns and one.replicas:
                assert one.ready(at)
                assert at - one.started - one.starts >= member.residency_seconds
                one.replicas, one.ended = 0, at + one.ends
            elif one.name not in turns and member.waits:
                assert member.held_since == min(
                    m.held_since for m in members if m.held_since is not None and m.waits
                )
                one.replicas, one.started = 1, at
            if one.ready(at):
                one.requests = [each for each in one.requests if each > at]
            assert all(at - each <= round_seconds for each in one.requests if each <= at)
        assert sum(1 for one in fleet if one.replicas or at < one.ended) <= 1
    assert [one.requests for one in fleet] == [[] for _ in fleet]
