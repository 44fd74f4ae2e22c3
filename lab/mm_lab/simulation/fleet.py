"""Replicas over time: cold starts, nodes that are full, removals that drain, pods that die."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mm_lab.simulation.meters import Meters
from mm_lab.simulation.profile import ServiceProfile
from mm_lab.simulation.replica import Replica
from mm_lab.simulation.request import Request


@dataclass(slots=True)
class _Starting:
    """A pod that is not Ready: it waits for a node, then loads."""

    created: float
    ready_at: float | None
    """`None` while there is no node for it."""


class Fleet:
    """The pods of one model; a Service deals requests to the Ready ones at random.

    At random, because kube-proxy picks without a look at load; every policy meets the same.
    """

    def __init__(
        self, profile: ServiceProfile, replicas: int, *, nodes: int, seed: random.Random
    ) -> None:
        self._profile = profile
        self._random = seed
        self.nodes = nodes
        """How many pods find a GPU."""
        self.wanted = replicas
        self._ready = [Replica(profile, 0.0) for _ in range(replicas)]
        self._starting: list[_Starting] = []
        self._draining: list[Replica] = []
        self._parked: list[Request] = []
        self.paid_seconds = 0.0

    @property
    def ready(self) -> int:
        """Return the pods that answer."""
        return len(self._ready)

    @property
    def unschedulable(self) -> int:
        """Return the pods without a node."""
        return sum(1 for pod in self._starting if pod.ready_at is None)

    @property
    def loads(self) -> list[tuple[int, int]]:
        """Return what waits and what runs, of each pod that answers."""
        return [(one.inside - one.running, one.running) for one in self._ready]

    @property
    def held(self) -> list[Request]:
        """Return the requests that wait for a pod that answers, oldest first."""
        return self._parked

    def unschedulable_seconds(self, at: float) -> float:
        """Return since when the oldest of them waits."""
        waits = [at - pod.created for pod in self._starting if pod.ready_at is None]
        return max(waits, default=0.0)

    def scale(self, replicas: int, at: float) -> None:
        """Request so many: new pods start cold; pods that do not serve go first, then the newest.

        That is the ReplicaSet controller's order.
        """
        self.wanted = replicas
        surplus = len(self._ready) + len(self._starting) - replicas
        self._starting.extend(_Starting(at, None) for _ in range(-surplus))
        for _ in range(surplus):
            if self._starting:
                waiting = [pod for pod in self._starting if pod.ready_at is None]
                self._starting.remove(waiting[-1] if waiting else self._starting[-1])
            else:
                self._draining.append(self._ready.pop())

    def crash(self, at: float, meters: Meters) -> None:
        """Let one Ready pod die with what it holds; its successor starts cold."""
        if self._ready:
            dead = self._ready.pop(self._random.randrange(len(self._ready)))
            meters.died(dead.inside, at)
            self._starting.append(_Starting(at, None))

    def second(self, at: float, requests: Sequence[Request], meters: Meters) -> None:
        """Live through the second that ends at `at` with the requests that arrive in it."""
        self._schedule(at - 1.0)
        self._deal(requests)
        for replica in self._ready:
            replica.advance(at, meters)
        for replica in self._draining:
            replica.advance(at, meters)
        self._draining = [replica for replica in self._draining if replica.inside]
        bound = sum(1 for pod in self._starting if pod.ready_at is not None)
        self.paid_seconds += len(self._ready) + bound + len(self._draining)
        alive = [*self._ready, *self._draining]
        meters.close_second(
            sum(replica.inside for replica in alive),
            sum(replica.running for replica in alive),
            sum(replica.prompt_tokens for replica in alive),
        )

    def _schedule(self, now: float) -> None:
        """Place pods on free nodes, oldest first, and let loaded ones serve."""
        taken = len(self._ready) + len(self._draining)
        taken += sum(1 for pod in self._starting if pod.ready_at is not None)
        for pod in self._starting:
            if pod.ready_at is None and taken < self.nodes:
                pod.ready_at = now + self._profile.cold_start_seconds
                taken += 1
        for pod in [pod for pod in self._starting if pod.ready_at is not None]:
            if pod.ready_at is not None and pod.ready_at <= now:
                self._starting.remove(pod)
                self._ready.append(Replica(self._profile, now))

    def _deal(self, requests: Sequence[Request]) -> None:
        if not self._ready:
            self._parked.extend(requests)
            return
        hands: list[list[Request]] = [[] for _ in self._ready]
        count = len(hands)
        for request in [*self._parked, *requests]:
            hands[int(self._random.random() * count)].append(request)
        self._parked.clear()
        for replica, hand in zip(self._ready, hands, strict=True):
            if hand:
                replica.send(hand)
