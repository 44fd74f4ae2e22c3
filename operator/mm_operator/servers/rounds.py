"""Queries the state of every running server, round by round, on the leader only.

What a server said stays until its pod goes: no answer is no news, and the pod's status shows it.
Pods are a tenant's: each request ends after a fixed time whatever arrives meanwhile, an answer is
read up to a bound, and the pods of one namespace hold a few connections and one deadline only.
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from pydantic import ValidationError

from mm_api import labels
from mm_api.contract import METRICS_PORT
from mm_api.documents.server_state import PATH, ServerState
from mm_api.hosts import host_port
from mm_operator.bodies import read_bounded
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.resources import POD

QUERIED = frozenset({labels.Component.SERVER, labels.Component.CANARY, labels.Component.ENCODER})
"""Pods that run `mm-runtime serve`: language models, and vision encoders in pods of their own."""


@dataclass(frozen=True, slots=True)
class ServerPod:
    """A serving pod, or an encoder's, whose server can be queried."""

    name: str
    uid: str
    address: str


def server_pod(pod: Mapping[str, Any]) -> ServerPod | None:
    """Return where a pod's server answers; None for other pods, and while it does not run."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    component = (metadata.get("labels") or {}).get(labels.APP_COMPONENT)
    if component not in QUERIED or "deletionTimestamp" in metadata:
        return None
    if status.get("phase") != "Running" or not status.get("podIP"):
        return None
    return ServerPod(metadata["name"], metadata["uid"], status["podIP"])


_LOG = logging.getLogger(__name__)

_AT_ONCE = 64
"""Requests on their way: one that is answered takes a millisecond."""

_NAMESPACE_AT_ONCE = 8
"""Queries at a time for the pods of one namespace: eight namespaces whose pods never end an answer
delay the others by one time-out."""

_SECONDS = 3.0
"""For one request, from the connection to the last byte."""

_NAMESPACE_SECONDS = 30.0
"""For all pods of a namespace: 80 of which none answers. Those left out keep what they said."""

_TURN = 50
"""Models between two turns of others on the event loop."""

_MOST_BYTES = 16 * 1024
"""Twenty times what a server says, and less than a condition's message may have."""


def session() -> aiohttp.ClientSession:
    """Return a session for rounds.

    Each answer closes its connection: a kept one would outlive its pod. Compressed answers are not
    unpacked, so that a bound on bytes is a bound on memory.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
        trust_env=False,
    )


async def fetch(session: aiohttp.ClientSession, url: str, most_bytes: int) -> bytes | None:
    """Return the body of an answer; None when there is none, or it is larger."""
    try:
        async with asyncio.timeout(_SECONDS), session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:  # noqa: PLR2004  # OK; an older program answers 404
                return None
            return await read_bounded(answer.content, most_bytes)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        _LOG.debug("%s does not answer: %s", url, error)
        return None


@dataclass(slots=True, eq=False, kw_only=True)
class Servers:
    """What the servers of each model last said that its status depends on; `wake` writes it."""

    models: ModelCache
    cache: Cache
    wake: Callable[[Key], None]
    interval_seconds: float
    port: int = METRICS_PORT
    _said: dict[str, ServerState] = field(default_factory=dict, init=False)
    _notable: dict[Key, tuple[ServerState, ...]] = field(default_factory=dict, init=False)
    _silent: bool = field(default=False, init=False)

    def notable(self, key: Key) -> tuple[ServerState, ...]:
        """Return what servers of a model said that its status depends on, by the pods' names."""
        return self._notable.get(key, ())

    def warm_up_problem(self, pod_uid: str) -> str:
        """Return why the warm-up of a pod fails each time; empty when it does not."""
        said = self._said.get(pod_uid)
        return (said and said.warm_up_problem) or ""

    async def lead(self) -> None:
        """Go round until cancelled, with no memory of an earlier time as leader."""
        self._said.clear()
        self._notable.clear()
        async with session() as opened:
            while True:
                started = time.monotonic()
                try:
                    await self.poll(opened)
                except Exception:  # noqa: BLE001  # one round's defect must not end the operator
                    _LOG.exception("a round of queries to servers failed; the next round retries")
                took = time.monotonic() - started
                await asyncio.sleep(max(self.interval_seconds / 10, self.interval_seconds - took))

    async def poll(self, session: aiohttp.ClientSession) -> None:
        """Query every running server once, and wake the models of which something new is known."""
        pods: dict[Key, tuple[ServerPod, ...]] = {}
        for number, key in enumerate(self.models):
            pods[key] = self._pods_of(key)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        every = [pod for some in pods.values() for pod in some]
        there = {pod.uid for pod in every}
        for uid in self._said.keys() - there:
            del self._said[uid]
        namespaces: dict[str, dict[Key, tuple[ServerPod, ...]]] = defaultdict(dict)
        for key, some in pods.items():
            namespaces[key.namespace][key] = some
        turns = asyncio.Semaphore(_AT_ONCE)
        answered: set[str] = set()
        async with asyncio.TaskGroup() as group:
            for members in namespaces.values():
                group.create_task(self._query_namespace(session, members, turns, answered))
        self._report_silence(every, answered)
        for key in self._notable.keys() - pods.keys():
            self._note(key, ())

    async def _query_namespace(
        self,
        session: aiohttp.ClientSession,
        pods: Mapping[Key, Sequence[ServerPod]],
        turns: asyncio.Semaphore,
        answered: set[str],
    ) -> None:
        """Query the pods of one namespace and note each model of it, however the others answer."""
        own = asyncio.Semaphore(_NAMESPACE_AT_ONCE)

        async def one(pod: ServerPod) -> None:
            async with own, turns:
                said = await self._query(session, pod)
            if said is not None:
                self._said[pod.uid] = said
                answered.add(pod.uid)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NAMESPACE_SECONDS), asyncio.TaskGroup() as group:
                for some in pods.values():
                    for pod in some:
                        group.create_task(one(pod))
        for key, some in pods.items():
            self._note(key, some)

    def _pods_of(self, key: Key) -> tuple[ServerPod, ...]:
        """Return the running server pods of a model, by name."""
        return tuple(
            pod
            for item in self.cache.of_model(key)
            if item.kind == POD.kind and not item.job and (pod := item.once(server_pod))
        )

    async def _query(self, session: aiohttp.ClientSession, pod: ServerPod) -> ServerState | None:
        """Return what a server says; None when it says nothing that is understood."""
        url = f"http://{host_port(pod.address, self.port)}{PATH}"
        try:
            body = await fetch(session, url, _MOST_BYTES)
            return ServerState.from_json(body) if body is not None else None
        except ValidationError as error:
            _LOG.debug("the server of pod %s is not understood: %s", pod.name, error)
            return None

    def _note(self, key: Key, pods: Iterable[ServerPod]) -> None:
        states = (self._said.get(pod.uid) for pod in pods)
        notable = tuple(state for state in states if state is not None and state.notable)
        if notable == self.notable(key):
            return
        if notable:
            self._notable[key] = notable
        else:
            del self._notable[key]
        self.wake(key)

    def _report_silence(self, every: list[ServerPod], answered: set[str]) -> None:
        """Log once that no server answers at all: then a rule of the network is in between."""
        silent = bool(every) and not answered
        if silent and not self._silent:
            _LOG.warning(
                "none of %d servers answers on port %d of its pod: full memory pools will not show "
                "in conditions. Let the operator's pod through the NetworkPolicies of the models' "
                "namespaces.",
                len(every),
                self.port,
            )
        elif answered and self._silent:
            _LOG.info("servers answer again")
        self._silent = silent if every else self._silent
