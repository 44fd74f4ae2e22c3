"""The models behind the router, their replicas, and what each of those has to do at this moment.

Everything here happens in one event loop and waits for nothing.
"""

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from mm_api.documents.router_state import RouterState
from mm_api.labels import REVISION_DIGITS
from mm_router.catalog import Catalog, Model
from mm_router.demand import Work
from mm_router.ejection import Ejections, Failure
from mm_router.hold import Holds
from mm_router.metrics import ModelState, RouterMetrics
from mm_router.placement import By, Placement, place, stays
from mm_router.versions import Evidence, Version, version_of

_LOG = logging.getLogger(__name__)

ReplicasKey = tuple[str, ...]
"""Namespace and name of a model; its canary's replicas have the label of their revision besides."""


_KNOWN = 8192
"""Keys of images that are remembered of a model: 2 MB."""


@dataclass(slots=True)
class _Load:
    requests: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Replicas:
    addresses: frozenset[str] = frozenset()
    outstanding: dict[str, _Load] = field(default_factory=dict)
    ejections: Ejections = field(default_factory=Ejections)
    turns: Iterator[int] = field(default_factory=itertools.count)
    known_by: dict[bytes, str] = field(default_factory=dict)
    """Keys of images -> the replica that got them as the first of their order, latest last."""


_IDLE = _Load()


def model_label(replicas: ReplicasKey) -> str:
    return "/".join(replicas[:2])


class Fleet:
    """What the router knows."""

    def __init__(self, metrics: RouterMetrics, holds: Holds, clock: Callable[[], float]) -> None:
        self.evidence = Evidence(clock)
        self._metrics = metrics
        self._holds = holds
        self._clock = clock
        self._replicas: dict[ReplicasKey, _Replicas] = {}
        self._turns = itertools.count()
        self.catalog = Catalog()
        metrics.collect(self._states)

    def set_models(self, models: Iterable[Model]) -> None:
        """Take the models that there are now."""
        before = {model.key for model in self.catalog}
        self.catalog = Catalog(models)
        self.evidence.follow(self.catalog)
        now = {model.key: model for model in self.catalog}
        for namespace, name in before - now.keys():
            self._metrics.forget(f"{namespace}/{name}")
        self._holds.follow(now)

    def ways(self, model: Model, affinity: bytes | None) -> tuple[ReplicasKey, ...]:
        """Return whose replicas may answer a request: the revision of its key, then the other."""
        if model.canary is None:
            return (model.key,)
        own = version_of(affinity or next(self._turns).to_bytes(16), model)
        ways = self.revisions(model)
        ways = ways[::-1] if own is Version.CANARY else ways
        return tuple(sorted(ways, key=lambda way: not self._takes(way)))

    def revisions(self, model: Model) -> tuple[ReplicasKey, ...]:
        """Return whose replicas there are: those of the stable revision first."""
        canary = model.canary
        beside = ((*model.key, canary.revision[:REVISION_DIGITS]),) if canary else ()
        return model.key, *beside

    def set_replicas(self, model: ReplicasKey, addresses: Collection[str]) -> None:
        """Take the addresses of a model's ready replicas; requests under way stay counted."""
        replicas = self._replicas.setdefault(model, _Replicas())
        if replicas.addresses != frozenset(addresses):
            _LOG.info("%s has %d ready replicas", "/".join(model), len(addresses))
        replicas.addresses = frozenset(addresses)
        replicas.ejections.keep(addresses)
        if not addresses and not replicas.outstanding:
            del self._replicas[model]
        if addresses:
            self._holds.wake((model[0], model[1]))

    def choose(
        self,
        model: ReplicasKey,
        affinity: bytes | None,
        work: Work,
        *,
        tried: Collection[str] = (),
    ) -> "Visit | None":
        """Return a visit to a replica, which is to be ended; None: there is none left to try."""
        replicas = self._replicas.get(model)
        left = sorted(replicas.addresses.difference(tried)) if replicas else []
        if replicas is None or not left:
            return None
        open_ = replicas.ejections.choosable(left, self._clock())
        outstanding = {one: replicas.outstanding.get(one, _IDLE).tokens for one in open_}
        known_by = replicas.known_by.get(affinity or b"", "")
        placement = Placement(known_by, By.AFFINITY)
        if stays(known_by, outstanding, work.kept):
            work = Work(work.prompt - work.kept, work.answer)
        else:
            placement = place(affinity, outstanding, turn=next(replicas.turns))
        if affinity and work.kept and placement.by is By.AFFINITY:
            replicas.known_by.pop(affinity, None)
            replicas.known_by[affinity] = placement.replica
            if len(replicas.known_by) > _KNOWN:
                del replicas.known_by[next(iter(replicas.known_by))]
        replicas.ejections.chosen(placement.replica)
        load = replicas.outstanding.setdefault(placement.replica, _Load())
        load.requests += 1
        load.tokens += work.tokens
        self._metrics.count("mm_router_placements_total", model_label(model), placement.by)
        return Visit(self, model, placement.replica, work)

    def answered(self, model: ReplicasKey, replica: str) -> None:
        if replicas := self._replicas.get(model):
            replicas.ejections.answered(replica)

    def failed(self, model: ReplicasKey, replica: str, failure: Failure) -> None:
        replicas = self._replicas.get(model)
        if replicas is None or replica not in replicas.addresses:
            return
        if replicas.ejections.failed(replica, failure, self._clock()):
            self._metrics.count("mm_router_ejections_total", model_label(model), failure)
            _LOG.warning("replica %s of %s is left alone: %s", replica, "/".join(model), failure)

    def done(self, model: ReplicasKey, replica: str, tokens: int) -> None:
        """Note that a part of a request is done; the request continues."""
        self._replicas[model].outstanding[replica].tokens -= tokens

    def replicas(self, model: ReplicasKey) -> frozenset[str]:
        """Return the addresses of a model's ready replicas."""
        replicas = self._replicas.get(model)
        return replicas.addresses if replicas else frozenset()

    def left(self, model: ReplicasKey, replica: str, tokens: int, *, frees: bool) -> None:
        """End a request at a replica, with what was left of its work."""
        replicas = self._replicas[model]
        replicas.ejections.left(replica)
        load = replicas.outstanding[replica]
        load.requests -= 1
        load.tokens -= tokens
        if not load.requests:
            del replicas.outstanding[replica]
        if not replicas.addresses and not replicas.outstanding:
            del self._replicas[model]
        elif frees:
            self._holds.wake((model[0], model[1]), 1)

    def state(self, namespaces: Iterable[str]) -> bytes:
        """Return what the operator reads, which wakes models; `namespaces`: those routed to."""
        holds = self._holds
        state = RouterState(
            namespaces=list(namespaces),
            held={"/".join(key): count for key, count in holds.held().items()},
            waited_seconds={
                "/".join(key): seconds for key, seconds in holds.waited_seconds().items()
            },
            canaries=self.evidence.report(),
        )
        return state.to_json().encode()

    def _takes(self, model: ReplicasKey) -> bool:
        """Return whether a model has a replica that is not ejected."""
        replicas = self._replicas.get(model)
        return replicas is not None and replicas.ejections.some_open(
            replicas.addresses, self._clock()
        )

    def _states(self) -> Iterator[ModelState]:
        held, waited = self._holds.held(), self._holds.waited_seconds()
        for model in self.catalog:
            one = self._replicas.get(model.key, _Replicas())
            yield ModelState(
                model="/".join(model.key),
                replicas=len(one.addresses),
                ejected=one.ejections.ejected(),
                outstanding=sum(load.requests for load in one.outstanding.values()),
                outstanding_tokens=sum(load.tokens for load in one.outstanding.values()),
                held=held.get(model.key, 0),
                held_seconds=waited.get(model.key, 0.0),
            )


class Visit:
    """One request at one replica (HOST:PORT), from its choice to the last byte."""

    def __init__(self, fleet: Fleet, model: ReplicasKey, replica: str, work: Work) -> None:
        self._fleet = fleet
        self._model = model
        self._left = work
        self._over = False
        self.replica = replica
        self.version = Version.CANARY if len(model) > len(("namespace", "name")) else Version.STABLE

    def answered(self) -> None:
        """Note that the replica answers; the visit continues."""
        self._fleet.answered(self._model, self.replica)

    def failed(self, failure: Failure) -> None:
        """Note that the replica failed; the visit continues."""
        self._fleet.failed(self._model, self.replica, failure)

    def prompt_done(self) -> None:
        """Note that the first token has come: what is left is the answer."""
        if not self._over:
            self._fleet.done(self._model, self.replica, self._left.prompt)
            self._left = Work(0, self._left.answer)

    def end(self, *, frees: bool = False) -> None:
        """End the visit, once; `frees`: a request that waits may have its place."""
        if not self._over:
            self._over = True
            self._fleet.left(self._model, self.replica, self._left.tokens, frees=frees)
