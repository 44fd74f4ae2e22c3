"""Asks every running server how it is, round by round, on the leader only.

What a server said stays until its pod goes: silence is no news, and the pod's status tells it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

import aiohttp
from pydantic import ValidationError

from mm_api.documents.server_state import PATH, ServerState
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.resources import POD
from mm_operator.servers.pods import METRICS_PORT, ServerPod, server_pod

_LOG = logging.getLogger(__name__)

_AT_ONCE = 64
"""Questions on their way: 2,000 pods of which none answers take a round of 100 s, and one that
answers takes a millisecond."""

_SECONDS = 3.0
_MOST_BYTES = 64 * 1024
"""A hundred times what a server says."""


class Servers:
    """What the servers of each model last said of trouble.

    Args:
        models: the custom resources as last seen.
        cache: their pods.
        wake: asks for a model to be reconciled, which writes its status.
        interval_seconds: between two rounds.
        port: where servers answer.
    """

    def __init__(
        self,
        *,
        models: ModelCache,
        cache: Cache,
        wake: Callable[[Key], None],
        interval_seconds: float,
        port: int = METRICS_PORT,
    ) -> None:
        self._models = models
        self._cache = cache
        self._wake = wake
        self._interval = interval_seconds
        self._port = port
        self._said: dict[str, ServerState] = {}
        self._troubled: dict[Key, tuple[ServerState, ...]] = {}
        self._unheard = False

    def troubled(self, key: Key) -> tuple[ServerState, ...]:
        """Return what those servers of a model said that are in trouble, by the pods' names."""
        return self._troubled.get(key, ())

    async def lead(self) -> None:
        """Go round until cancelled, with no memory of an earlier time as leader."""
        self._said.clear()
        self._troubled.clear()
        # Each answer closes its connection; a kept one would outlive its pod.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_AT_ONCE, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS),
            trust_env=False,
        ) as session:
            while True:
                started = time.monotonic()
                try:
                    await self.go_round(session)
                except Exception:  # noqa: BLE001  # one round's defect must not end the operator
                    _LOG.exception("a round of questions to servers failed; the next one comes")
                took = time.monotonic() - started
                await asyncio.sleep(max(self._interval / 10, self._interval - took))

    async def go_round(self, session: aiohttp.ClientSession) -> None:
        """Ask every running server once, and wake the models of which something new is known."""
        pods = {key: self._pods_of(key) for key in self._models}
        every = [pod for some in pods.values() for pod in some]
        answers = await asyncio.gather(*(self._ask(session, pod) for pod in every))
        heard = {
            pod.uid: said for pod, said in zip(every, answers, strict=True) if said is not None
        }
        self._tell_of_silence(every, heard)
        self._said |= heard
        for uid in self._said.keys() - {pod.uid for pod in every}:
            del self._said[uid]
        for key in self._troubled.keys() | pods.keys():
            self._note(key, pods.get(key, ()))

    def _pods_of(self, key: Key) -> tuple[ServerPod, ...]:
        """Return the running server pods of a model, by name."""
        return tuple(
            pod
            for item in self._cache.of_model(key)
            if item.kind == POD.kind and not item.job and (pod := item.once(server_pod))
        )

    async def _ask(self, session: aiohttp.ClientSession, pod: ServerPod) -> ServerState | None:
        """Return what a server says; None when it says nothing that is understood."""
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        try:
            async with session.get(
                f"http://{host}:{self._port}{PATH}", allow_redirects=False
            ) as answer:
                if answer.status != 200:  # noqa: PLR2004  # OK; an older runtime answers 404
                    return None
                return ServerState.from_json(await answer.content.read(_MOST_BYTES))
        except (aiohttp.ClientError, TimeoutError, OSError, ValidationError) as error:
            _LOG.debug("the server of pod %s says nothing: %s", pod.name, error)
            return None

    def _note(self, key: Key, pods: Iterable[ServerPod]) -> None:
        states = (self._said.get(pod.uid) for pod in pods)
        troubled = tuple(state for state in states if state is not None and state.in_trouble)
        if troubled == self.troubled(key):
            return
        if troubled:
            self._troubled[key] = troubled
        else:
            del self._troubled[key]
        self._wake(key)

    def _tell_of_silence(self, every: list[ServerPod], heard: dict[str, ServerState]) -> None:
        """Say once that nobody answers at all: then a rule of the network is in between."""
        unheard = bool(every) and not heard
        if unheard and not self._unheard:
            _LOG.warning(
                "none of %d servers answers on port %d of its pod: full memory pools will not show "
                "in conditions. Let the operator's pod through the NetworkPolicies of the models' "
                "namespaces.",
                len(every),
                self._port,
            )
        elif heard and self._unheard:
            _LOG.info("servers answer again")
        self._unheard = unheard if every else self._unheard
