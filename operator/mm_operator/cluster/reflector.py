"""Keeps a cache equal to what the API server holds of one kind: list once, then watch.

kopf watches too, but it never reports an object that was deleted while its watch was down, and it
keeps no copy. A cache that is trusted for "does not exist" needs the list to replace everything.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import orjson

from mm_operator.cluster.bounds import LIST_PAGE
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import Resource
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

_GONE = 410
_FORBIDDEN = 403
_NOT_FOUND = 404
_WATCH_SECONDS = (300, 600)
"""The range client-go uses: random, so that streams do not all reconnect at once."""
_SILENCE_SECONDS = 90.0
"""Bookmarks come every 60 s; half as much again before the connection counts as dead."""
_TURN = 16
"""Events between two turns of others on the event loop: lines that are there already are read
without one, and 2 MB of them would be taken in half a second."""
_BACKOFF_SECONDS = (0.5, 30.0)
"""First and longest pause after a failed list or watch."""


class Sink(Protocol):
    """What a reflector fills."""

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take one listed, added or changed object."""

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """End a list of this version: what is no newer and not among its uids is gone.

        `namespace` None: the list was of all namespaces.
        """

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Forget one deleted object."""


class _ExpiredError(Exception):
    """The resource version is too old to watch from: list again."""


@dataclass(slots=True, eq=False)
class Reflector:
    """Fills a sink with the objects of one resource that match a label and a field selector.

    `synced` is set after the first complete list, `answered` after the first answer, be it that the
    operator lacks the right to list or that the kind is not defined; `missing` says so until a list
    succeeds. `problem` says why the stream is down, empty while it is up: it is shown by `/readyz`.
    """

    client: Client
    resource: Resource
    namespace: str | None
    selector: str
    sink: Sink
    fields: str = ""
    metadata_only: bool = False
    jitter: Callable[[int, int], int] = random.randint
    synced: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    answered: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    missing: bool = field(default=False, init=False)
    problem: str = field(default="not listed yet", init=False)

    @property
    def name(self) -> str:
        """Return the plural, with the namespace where there is one, for logs and health."""
        return f"{self.resource.plural} in {self.namespace or 'all namespaces'}"

    async def run(self) -> None:
        """List and watch until cancelled."""
        version = ""
        pause = _BACKOFF_SECONDS[0]
        while True:
            try:
                if not version:
                    version = await self._list()
                self.problem = ""
                version = await self._watch(version)
                pause = _BACKOFF_SECONDS[0]
            except _ExpiredError:
                version = ""
            except ClusterError as error:
                if error.status == _GONE:
                    version = ""
                    continue
                if error.status:  # the server answered: whatever we had may no longer be valid
                    version = ""
                if self.problem != str(error):  # logged once: a right that is missing stays so
                    _LOG.warning("watch of %s is down: %s", self.name, error)
                self.problem = str(error)
                if error.status in {_FORBIDDEN, _NOT_FOUND}:
                    self.missing = True
                    self.answered.set()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _BACKOFF_SECONDS[1])

    async def _list(self) -> str:
        """Make the sink equal to a fresh list and return the version to watch from.

        Each page is passed on as it comes: thousands of objects at once would hold the loop, and
        as dictionaries take more memory than everything that is kept of them.
        """
        uids: set[str] = set()
        version = ""
        pages = self.client.list(
            self.resource,
            self.namespace,
            selector=self.selector,
            fields=self.fields,
            metadata_only=self.metadata_only,
            page=LIST_PAGE.get(self.resource.kind, 500),
        )
        async for items, version in pages:  # noqa: B007  # the last page's version is what is wanted
            for item in items:
                self.sink.put(self.resource.kind, item)
                uids.add(item["metadata"]["uid"])
                await asyncio.sleep(0)  # to take one is 0.3 ms; others have their turns in between
        self.sink.keep(self.resource.kind, uids, namespace=self.namespace, version=int(version))
        self.missing = False
        self.synced.set()
        self.answered.set()
        return version

    async def _watch(self, version: str) -> str:
        """Follow one watch request to its end and return the version reached."""
        answer = await self.client.watch(
            self.resource,
            self.namespace,
            selector=self.selector,
            fields=self.fields,
            version=version,
            seconds=self.jitter(*_WATCH_SECONDS),
            silence_seconds=_SILENCE_SECONDS,
            metadata_only=self.metadata_only,
        )
        async with answer:
            try:
                taken = 0
                while line := await answer.content.readline():
                    version = self._take(orjson.loads(line))
                    taken += 1
                    if taken % _TURN == 0:
                        await asyncio.sleep(0)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                _LOG.info("watch of %s broke off: %s", self.name, type(error).__name__)
                await asyncio.sleep(_BACKOFF_SECONDS[0])
            except asyncio.CancelledError:
                # TLS would wait for close_notify, up to 30 s: longer than the loop of an end lives.
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()
                raise
        return version

    def _take(self, event: dict[str, Any]) -> str:
        item = event["object"]
        if event["type"] == "ERROR":
            if item.get("code") == _GONE:
                raise _ExpiredError
            raise ClusterError(
                item.get("code", 0), self.resource.kind, "", item.get("message", "watch failed")
            )
        if event["type"] in {"ADDED", "MODIFIED"}:
            self.sink.put(self.resource.kind, item)
        elif event["type"] == "DELETED":
            self.sink.remove(self.resource.kind, item)
        version: str = item["metadata"]["resourceVersion"]
        return version
