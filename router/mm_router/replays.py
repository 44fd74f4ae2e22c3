"""Requests that the stable revision has answered, replayed on both revisions at temperature 0.

Off the path of clients, one at a time for a model, at replicas that refuse what would make a client
wait. Messages and answers are compared in memory and forgotten: none is logged or written.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import orjson

from mm_api.contract import REPLAY_HEADER
from mm_edge.drain import Drain
from mm_edge.json_text import without_mark
from mm_router.attempts import Attempts, Outgoing
from mm_router.catalog import Canary, ReplayLimits
from mm_router.demand import Work
from mm_router.fleet import ReplicasKey
from mm_router.upstream import BrokenError, UnreachableError
from mm_router.versions import RequestKind, Version

_CHATS = "/v1/chat/completions"

_SECONDS = 60.0
"""For both answers of a replay."""

_MOST_BYTES = 8 << 20
"""A larger request is not replayed; a JPEG of 12 megapixels has half of it in base64."""

_MOST = 4
"""Replays at one time, of all models: 32 MiB, and what parsing takes of them one after another."""

_ONCE = frozenset({"cache_salt", "functions", "tools"})
"""Fields of requests that are not replayed: a salt separates caches, and tools may act."""


class Result(StrEnum):
    """What came of a replay; the label of a metric."""

    AGREED = "agreed"
    DIFFERED = "differed"
    DROPPED = "dropped"


class Replays:
    """The replays of one router.

    Args:
        drain: none begins once the router drains.
        reader: parses bodies, one after another.
        clock: seconds that only go forward.
    """

    def __init__(
        self, attempts: Attempts, drain: Drain, reader: Executor, clock: Callable[[], float]
    ) -> None:
        self._attempts = attempts
        self._drain = drain
        self._reader = reader
        self._clock = clock
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._due: dict[tuple[tuple[str, str], RequestKind], float] = {}

    def offer(self, request: Outgoing, version: Version, status: int) -> None:
        """Replay a request that has its answer, where the model requests it within its bounds."""
        canary, key = request.model.canary, request.model.key
        if canary is None or canary.replay is None or version is not Version.STABLE:
            return
        kind = RequestKind.IMAGE if request.with_images else RequestKind.TEXT
        now = self._clock()
        if (
            status != HTTPStatus.OK
            or kind not in canary.replay.modalities
            or request.target != _CHATS
            or len(request.body) > _MOST_BYTES
            or key in self._running
            or len(self._running) >= _MOST
            or now < self._due.get((key, kind), 0.0)
            or self._drain.closing
            or _is_for_once(request.headers)
            or key in self._attempts.holds.held()
        ):
            return
        # Without those of models that are gone.
        self._due = {one: due for one, due in self._due.items() if due > now}
        self._due[key, kind] = now + 60 / canary.replay.samples_per_minute
        task = asyncio.create_task(self._run(request, canary, canary.replay, kind))
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key))

    async def close(self) -> None:
        """End those that run."""
        tasks = [*self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(
        self, request: Outgoing, canary: Canary, limits: ReplayLimits, kind: RequestKind
    ) -> None:
        result, fleet = Result.DROPPED, self._attempts.fleet
        try:
            async with asyncio.timeout(_SECONDS):
                loop = asyncio.get_running_loop()
                body = await loop.run_in_executor(
                    self._reader, replayed, request.body, limits.max_tokens
                )
                if body is None:
                    return
                headers = {"content-type": "application/json", REPLAY_HEADER: "1"}
                work = Work(request.work.prompt, limits.max_tokens)
                request = replace(request, body=body, headers=headers, work=work)
                ways = fleet.revisions(request.model)
                answers = await asyncio.gather(*(self._answer(way, request) for way in ways))
        except TimeoutError:
            return
        else:
            if None not in answers:
                result = Result.AGREED if answers[0] == answers[1] else Result.DIFFERED
                differs = result is Result.DIFFERED
                fleet.evidence.replayed(request.model.key, canary, kind, differs=differs)
        finally:
            self._attempts.metrics.count("mm_router_replays_total", request.label, kind, result)

    async def _answer(self, way: ReplicasKey, request: Outgoing) -> object:
        """Return what a revision writes; None: it did not take the request."""
        visit = self._attempts.fleet.choose(way, request.affinity, request.work)
        if visit is None:
            return None
        try:
            received = await self._attempts.send(visit.replica, request)
            received.close()
        except (UnreachableError, BrokenError):
            return None
        finally:
            visit.end(frees=True)
        return _written(received.content) if received.status == HTTPStatus.OK else None


def replayed(body: bytes, max_tokens: int) -> bytes | None:
    """Return a request of the same messages alone; None: it is not to be sent once more.

    Files behind addresses would be fetched again; recordings and videos are not compared.
    """
    request: dict[str, Any] = orjson.loads(without_mark(body))
    if request.keys() & _ONCE or not all(_has_its_files(one) for one in request["messages"]):
        return None
    kept = {name: request[name] for name in ("model", "messages")}
    return orjson.dumps({**kept, "temperature": 0, "max_tokens": max_tokens})


def _has_its_files(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return isinstance(content, str)
    files = (part.get(part.get("type")) for part in content if part.get("type") != "text")
    urls = (file.get("url") if isinstance(file, dict) else file for file in files)
    return all(isinstance(url, str) and url[:5].lower() == "data:" for url in urls) and all(
        part.get("type") in {"text", "image_url"} for part in content
    )


def _is_for_once(headers: Mapping[str, str]) -> bool:
    return "idempotency-key" in headers or "no-store" in headers.get("cache-control", "").lower()


def _written(content: bytes | None) -> object:
    try:
        message = orjson.loads(content or b"")["choices"][0]["message"]
        return message["content"], message.get("reasoning_content")
    except (ValueError, LookupError, TypeError):
        return None
