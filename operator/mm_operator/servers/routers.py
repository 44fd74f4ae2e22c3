"""Queries routers each second for waiting requests and canaries, on the leader only.

One request to each router and nothing for each model: whatever the fleet, a look costs the same.
Which routers there are say the EndpointSlices of their Service; those that end still hold requests.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import aiohttp
from pydantic import ValidationError

from mm_api.contract import ROUTER_METRICS_PORT
from mm_api.documents.router_state import PATH, CanaryEvidence, RouterState
from mm_api.hosts import host_port
from mm_operator.cluster.client import Client
from mm_operator.cluster.keys import Key
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import ENDPOINT_SLICE
from mm_operator.servers.rounds import fetch, session

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Between two looks: a request that waits costs a model's start, and half of this in the mean."""

_SILENT_SECONDS = 10.0
"""A router that is silent for longer may hold requests that are not counted."""

_EVIDENCE_SECONDS = 5.0
"""Between two reconciles of a model for what routers have seen of its canary: each may write its
status."""

_MOST_BYTES = 1 << 20
"""4,000 models in which requests wait, with names of 253 characters."""


class Routers:
    """What the routers of this installation hold.

    Args:
        client: lists and watches EndpointSlices.
        namespace: of the routers.
        service: their Service.
        port: where they answer.
        on_evidence: called with a model of whose canary something new was seen.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        service: str,
        *,
        port: int = ROUTER_METRICS_PORT,
        on_evidence: Callable[[Key], None] = lambda _key: None,
    ) -> None:
        selector = f"kubernetes.io/service-name={service}"
        self._reflector = Reflector(
            client, ENDPOINT_SLICE, namespace=namespace, selector=selector, sink=self
        )
        self._port = port
        self._slices: dict[str, list[tuple[str, bool]]] = {}
        self._said: dict[str, tuple[float, RouterState]] = {}
        self._held: Counter[str] = Counter()
        self._waited: dict[str, float] = {}
        self._on_evidence = on_evidence
        self._reported: dict[str, tuple[float, tuple[CanaryEvidence, ...]]] = {}

    def evidence(self, key: Key) -> tuple[CanaryEvidence, ...]:
        states = (said for _, said in self._said.values())
        return tuple(found for state in states if (found := state.canaries.get(str(key))))

    def held(self, key: Key) -> int:
        return self._held[str(key)]

    def waited_seconds(self, key: Key) -> float:
        """Return how long the oldest of them has waited."""
        return self._waited.get(str(key), 0.0)

    def problem(self, namespace: str) -> str:
        """Return why requests of a namespace may be lost without a replica; empty: they wait."""
        known = dict(one for some in self._slices.values() for one in some)
        fresh = [self._said.get(address) for address, ready in known.items() if ready]
        since = time.monotonic() - _SILENT_SECONDS
        if not fresh or any(one is None or one[0] < since for one in fresh):
            return "A router does not answer, or there is none."
        if any(one and one[1].namespaces and namespace not in one[1].namespaces for one in fresh):
            return "The namespace is not among those that the router routes to (router.namespaces)."
        return ""

    async def lead(self, wake: Callable[[Sequence[Key]], Awaitable[None]]) -> None:
        """Follow the routers until cancelled; `wake` gets the models in which requests wait."""
        async with session() as opened, asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run(), name="routers")
            while True:
                try:
                    await self.look(opened, wake)
                except Exception:  # noqa: BLE001  # one look's defect must not end the operator
                    _LOG.exception("a look at the routers failed; the next one retries")
                await asyncio.sleep(_LOOK_SECONDS)

    async def look(
        self, opened: aiohttp.ClientSession, wake: Callable[[Sequence[Key]], Awaitable[None]]
    ) -> None:
        """Query every router once."""
        there = {address for some in self._slices.values() for address, _ in some}
        answers = await asyncio.gather(*(self._query(opened, one) for one in sorted(there)))
        self._said = {one: said for one, said in self._said.items() if one in there}
        self._held = sum((Counter(one.held) for one in answers if one), Counter())
        self._waited = {}
        for one in answers:
            for name, seconds in one.waited_seconds.items() if one else ():
                self._waited[name] = max(seconds, self._waited.get(name, 0.0))
        self._report({name for one in answers if one for name in one.canaries})
        if self._held:
            await wake([Key(*one.split("/", 1)) for one in sorted(self._held) if "/" in one])

    def _report(self, canaries: Collection[str]) -> None:
        now = time.monotonic()
        self._reported = {name: one for name, one in self._reported.items() if name in canaries}
        for name in canaries:
            key = Key(*name.split("/", 1))
            found, (at, reported) = self.evidence(key), self._reported.get(name, (0.0, ()))
            if found != reported and now - at >= _EVIDENCE_SECONDS:
                self._reported[name] = now, found
                self._on_evidence(key)

    async def _query(self, opened: aiohttp.ClientSession, address: str) -> RouterState | None:
        body = await fetch(opened, f"http://{host_port(address, self._port)}{PATH}", _MOST_BYTES)
        try:
            said = None if body is None else RouterState.from_json(body)
        except ValidationError as error:
            _LOG.warning("the router at %s is not understood: %s", address, error)
            return None
        if said is not None:
            self._said[address] = time.monotonic(), said
        return said

    def put(self, _kind: str, item: dict[str, Any]) -> None:
        self._slices[item["metadata"]["uid"]] = [
            (one["addresses"][0], (one.get("conditions") or {}).get("ready") is not False)
            for one in item.get("endpoints") or ()
        ]

    def keep(
        self, _kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        del namespace, version  # one namespace, one reflector
        self._slices = {uid: one for uid, one in self._slices.items() if uid in uids}

    def remove(self, _kind: str, item: dict[str, Any]) -> None:
        self._slices.pop(item["metadata"]["uid"], None)
