"""Events that wait: how many, in which order, and what becomes of those that are not posted."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from mm_operator.cluster.client import WritesForbiddenError
from mm_operator.cluster.events import EventPoster, EventQueue, Waiting
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import FieldManager, ModelRecord
from mm_operator.cluster.packed import pack
from mm_operator.errors import ClusterError
from support.cases import cases
from support.eventually import eventually_async

RECORD = ModelRecord(
    key=Key("demo", "llava"),
    uid="u1",
    generation=1,
    observed=True,
    version=1,
    created=datetime(2026, 1, 1, tzinfo=UTC),
    deleting=False,
    shares_store=False,
    claims=(),
    served_claim="",
    scales=False,
    ready=False,
    waiting=False,
    comparison="",
    command="",
    spec=b"{}",
    status=pack({}),
    replicas_set_by=FieldManager(),
    samples=(),
)


def waiting(name: str, *, warns: bool = False) -> Waiting:
    return Waiting(("uid", name, name), warns, "demo", pack({"reason": name}))


def names_in(queue: EventQueue) -> list[str]:
    return [queue.take().body.read()["reason"] for _ in range(len(queue))]


def test_warnings_go_first() -> None:
    queue = EventQueue(pytest.fail)
    for one in (waiting("a"), waiting("B", warns=True), waiting("c"), waiting("D", warns=True)):
        queue.put(one)

    assert names_in(queue) == ["B", "D", "a", "c"]


@cases(
    "held comes left",
    {
        "the-oldest-makes-room": ("ab", "c", "bc"),
        "a-warning-takes-the-place-of-an-ordinary-one": ("Ab", "C", "AC"),
        "among-warnings-the-oldest-makes-room": ("AB", "C", "BC"),
        "no-warning-makes-room-for-an-ordinary-one": ("AB", "c", "AB"),
    },
)
def test_a_full_queue_gives_up_the_least_important(held: str, comes: str, left: str) -> None:
    """Capitals are warnings; one is given up, and counted."""
    dropped: list[str] = []
    queue = EventQueue(dropped.append, limit=2)
    for name in held + comes:
        queue.put(waiting(name, warns=name.isupper()))

    assert names_in(queue) == list(left)
    assert dropped == ["QueueFull"]


def test_the_same_event_waits_once() -> None:
    """A condition that goes to and fro while its Event waits is seen once, as of the last time."""
    dropped: list[str] = []
    queue = EventQueue(dropped.append)
    for name in ("a", "b", "a"):
        queue.put(waiting(name))

    assert names_in(queue) == ["b", "a"]
    assert dropped == ["Repeated"]


async def test_while_models_wait_events_are_few() -> None:
    """Posted one by one with pauses, and the rest at once when no model waits."""
    posts, busy = Posts(), [True]
    poster = poster_to(posts, busy=lambda: busy[0])
    reported(poster, 50)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: len(posts.taken) > 1)
    few = len(posts.taken)
    busy[0] = False
    await eventually_async(lambda: len(posts.taken) == 50)
    task.cancel()

    assert few < 50


class Posts:
    """The API server's side: refuses, or forbids for a moment, or takes."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.taken: list[str] = []

    async def create(self, _resource: object, _namespace: str, body: dict[str, Any]) -> None:
        if self.answers:
            raise self.answers.pop(0)
        self.taken.append(body["message"])


def poster_to(posts: Posts, **more: Any) -> EventPoster:
    return EventPoster(posts, "me", **more)  # type: ignore[arg-type]  # the one method that is called


def reported(poster: EventPoster, count: int) -> None:
    for number in range(count):
        condition = {
            "type": "Planned",
            "status": "False",
            "reason": "InvalidSpec",
            "message": f"number {number}",
        }
        poster.add(RECORD, {}, {"conditions": [condition]})


async def test_refusals_are_one_line_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dropped: list[str] = []
    posts = Posts(*(ClusterError(403, "Event", "", "quota") for _ in range(1000)))
    poster = poster_to(posts, busy=lambda: False, on_drop=dropped.append, summary_seconds=0.5)
    reported(poster, 1000)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: len(dropped) == 1000 and bool(caplog.messages))
    task.cancel()

    assert set(dropped) == {"Refused"}
    assert len(caplog.messages) <= 3  # a busy machine may need more than one interval
    assert caplog.messages[0].endswith("Refused; the last refusal: Event: HTTP 403: quota")


async def test_a_closed_fence_loses_no_event() -> None:
    dropped: list[str] = []
    posts = Posts(WritesForbiddenError())
    poster = poster_to(posts, busy=lambda: False, on_drop=dropped.append)
    reported(poster, 1)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: posts.taken == ["Planned: number 0"])
    task.cancel()

    assert dropped == []
