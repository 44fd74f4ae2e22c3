"""Events that wait: how many, in which order, and what becomes of those that are not posted."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from mm_operator.cluster.client import WritesForbiddenError
from mm_operator.cluster.events import LIMIT, EventPoster
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import FieldManager, ModelRecord
from mm_operator.cluster.packed import pack
from mm_operator.errors import ClusterError
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


async def test_warnings_go_first() -> None:
    posts = Posts()
    poster = poster_to(posts, busy=lambda: False)
    poster.add(RECORD, {}, {"conditions": [condition("True", "Planned", "all is well")]})
    reported(poster, 1)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: len(posts.taken) > 1)
    task.cancel()

    assert posts.taken == ["Planned: number 0", "Planned: all is well"]


async def test_a_full_queue_gives_up_its_oldest() -> None:
    dropped: list[str] = []
    posts = Posts()
    poster = poster_to(posts, busy=lambda: False, on_drop=dropped.append)
    reported(poster, LIMIT + 1)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: len(posts.taken) == LIMIT)
    task.cancel()

    assert posts.taken[0] == "Planned: number 1"
    assert dropped == ["QueueFull"]


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
        poster.add(
            RECORD, {}, {"conditions": [condition("False", "InvalidSpec", f"number {number}")]}
        )


def condition(status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": "Planned", "status": status, "reason": reason, "message": message}


async def test_refusals_are_one_line_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dropped: list[str] = []
    posts = Posts(*(ClusterError(403, "Event", "", "quota") for _ in range(1000)))
    poster = poster_to(posts, busy=lambda: False, on_drop=dropped.append)
    reported(poster, 1000)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: len(dropped) == 1000)
    task.cancel()

    assert set(dropped) == {"Refused"}
    assert caplog.messages == ["an Event was refused, as others may be: Event: HTTP 403: quota"]


async def test_a_closed_fence_loses_no_event() -> None:
    dropped: list[str] = []
    posts = Posts(WritesForbiddenError())
    poster = poster_to(posts, busy=lambda: False, on_drop=dropped.append)
    reported(poster, 1)
    task = asyncio.create_task(poster.run())
    await eventually_async(lambda: posts.taken == ["Planned: number 0"])
    task.cancel()

    assert dropped == []
