"""Models and their ready replicas as the API server holds them: two watches fill the fleet."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from mm_api import labels
from mm_api.conditions import ConditionType, Reason
from mm_api.hosts import host_port
from mm_api.modalities import MODALITIES
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.cluster.client import Client
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import ENDPOINT_SLICE, MODEL
from mm_router.catalog import Canary, Model, ReplayLimits
from mm_router.demand import ModelSize
from mm_router.fleet import Fleet, ReplicasKey

SLICES = (
    f"{labels.APP_MANAGED_BY}={labels.MANAGED_BY_VALUE},"
    f"{labels.APP_COMPONENT} in ({labels.Component.SERVER},{labels.Component.CANARY}),"
    "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
)
"""Slices of the Services of models: their controller copies the labels of the Service."""

_PORT = "http"
"""Name of the port in the Service of a model."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Slice:
    """One EndpointSlice: a part of a model's ready replicas, by addresses of one family."""

    model: ReplicasKey
    replicas: frozenset[tuple[str, str]]
    """Pod and address of each."""
    ipv6: bool = False


class Discovery:
    """Keeps a fleet equal to what the API server holds, after an outage too; no namespaces: all."""

    def __init__(self, client: Client, fleet: Fleet, namespaces: Collection[str]) -> None:
        self._fleet = fleet
        self._models = _Held(read_model, self._models_changed)
        self._slices = _Held(read_slice, self._slices_changed)
        self._reflectors = [
            Reflector(client, resource, namespace=namespace, selector=selector, sink=sink)
            for namespace in sorted(namespaces) or (None,)
            for resource, selector, sink in (
                (MODEL, "", self._models),
                (ENDPOINT_SLICE, SLICES, self._slices),
            )
        ]

    def problem(self) -> str:
        """Say what was never listed; empty once everything was: what is known stays in use."""
        waiting = [one for one in self._reflectors if not one.synced.is_set()]
        return "; ".join(f"{one.name}: {one.problem}" for one in waiting)

    async def synced(self) -> None:
        for reflector in self._reflectors:
            await reflector.synced.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=reflector.name)

    def _models_changed(self, _: Collection[Model]) -> None:
        self._fleet.set_models(self._models.values())

    def _slices_changed(self, changed: Collection[Slice]) -> None:
        held = self._slices.values()
        for model in {one.model for one in changed}:
            # A Service of two families has each pod in two slices: it is one replica.
            parts = sorted(
                (one for one in held if one.model == model), key=lambda one: not one.ipv6
            )
            addresses = dict(replica for one in parts for replica in one.replicas)
            self._fleet.set_replicas(model, frozenset(addresses.values()))


class _Held(Generic[T]):
    """Objects of one kind as a reflector reports them; `read` returns None of what is not held."""

    def __init__(
        self, read: Callable[[dict[str, Any]], T | None], changed: Callable[[Collection[T]], None]
    ) -> None:
        self._read = read
        self._changed = changed
        self._items: dict[str, tuple[str, T]] = {}

    def values(self) -> list[T]:
        return [item for _, item in self._items.values()]

    def put(self, _kind: str, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        before = self._items.pop(metadata["uid"], None)
        now = self._read(item)
        if now is not None:
            self._items[metadata["uid"]] = (metadata["namespace"], now)
        was = None if before is None else before[1]
        if now != was:
            self._changed([one for one in (was, now) if one is not None])

    def keep(
        self, _kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """End a list: what is not among its uids is gone."""
        del version  # one reflector lists and watches a namespace: nothing newer is known
        gone = [
            uid
            for uid, (of, _) in self._items.items()
            if uid not in uids and namespace in {None, of}
        ]
        items = [self._items.pop(uid)[1] for uid in gone]
        if items:
            self._changed(items)

    def remove(self, _kind: str, item: dict[str, Any]) -> None:
        held = self._items.pop(item["metadata"]["uid"], None)
        if held is not None:
            self._changed([held[1]])


def read_model(item: dict[str, Any]) -> Model | None:
    """Return a model; None while it is being deleted."""
    metadata = item["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    spec, status = item.get("spec", {}), item.get("status") or {}
    adapters = spec.get("engine", {}).get("lora") or []
    plan = status.get("plan") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    built = conditions.get(ConditionType.ENGINE_BUILT, {})
    is_built = built.get("status") == "True"
    obstacle = _obstacle(conditions) if is_built else built.get("reason") or ""
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return Model(
        namespace=metadata["namespace"],
        name=metadata["name"],
        adapters=tuple(one["name"] for one in adapters),
        created=int(created.timestamp()),
        size=_size(spec, status),
        modalities=tuple(one for one in MODALITIES if one in plan.get("inputModalities", ())),
        may_start=is_built and not obstacle and _is_wanted(spec),
        obstacle=obstacle,
        canary=_canary(spec, status),
        start_seconds=(status.get("scaling") or {}).get("coldStartSeconds") or 0.0,
    )


def _canary(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Canary | None:
    rollout = status.get("rollout") or {}
    if rollout.get("phase") not in {"Progressing", "Promoting"} or not rollout.get("weight"):
        return None
    analysis = ((spec.get("rollout") or {}).get("canary") or {}).get("analysis") or {}
    return Canary(
        revision=rollout["revision"],
        step=rollout["step"],
        weight=rollout["weight"],
        first_text=analysis.get("firstTextIncreasePercent") or 0,
        inter_token=analysis.get("interTokenIncreasePercent") or 0,
        replay=_replay(analysis.get("answers")),
    )


def _replay(answers: Mapping[str, Any] | None) -> ReplayLimits | None:
    if not answers:
        return None
    named = ("samplesPerMinute", "maxTokens")
    return ReplayLimits(tuple(answers["modalities"]), *(answers[one] for one in named))


def _obstacle(conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the reason why no pod will serve, whatever is wanted; empty: there is none."""
    degraded = conditions.get(ConditionType.DEGRADED, {})
    reason = degraded.get("reason") or ""
    # A node that is missing may come for the pod; the stable revision answers beside a canary.
    passing = {Reason.PODS_UNSCHEDULABLE, Reason.CANARY_ROLLED_BACK}
    holds = degraded.get("status") == "True" and reason not in passing
    return reason if holds else ""


def _is_wanted(spec: Mapping[str, Any]) -> bool:
    scaling = spec.get("autoscaling") or {}
    to_zero = scaling.get("minReplicas") == 0 and scaling.get("mode", "Enforce") == "Enforce"
    return bool(spec.get("replicas", 1) or to_zero)


def _size(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ModelSize:
    plan, work = status.get("plan") or {}, (status.get("scaling") or {}).get("work")
    limits = plan.get("limits") or {}
    price = 1.0
    if work and work["textTokenSeconds"]:
        price = max(price, round(work["imageTokenSeconds"] / work["textTokenSeconds"], 2))
    # Keys and values of an image save all of it, its features what the encoder did.
    kept = price - 1 if bytes_of(spec.get("vision", {}).get("featureCacheBytes", 0)) else 0.0
    if spec.get("engine", {}).get("kvCache", {}).get("reuse"):
        kept = price
    return ModelSize(limits.get("maxSeqLen") or 0, plan.get("featuresPerImage") or 0, price, kept)


def read_slice(item: dict[str, Any]) -> Slice | None:
    """Return the replicas of a slice that are ready; None: the slice is of no model."""
    metadata = item["metadata"]
    marks = metadata.get("labels", {})
    model, revision = marks.get(labels.MODEL), marks.get(labels.REVISION)
    port = next((one for one in item.get("ports") or [] if one.get("name") == _PORT), None)
    if not model or port is None:
        return None
    replicas = frozenset(
        (_pod(endpoint, address), host_port(address, port["port"]))
        for endpoint in item.get("endpoints") or []
        if _is_ready(endpoint.get("conditions") or {})
        for address in endpoint["addresses"][:1]
    )
    return Slice(
        model=(metadata["namespace"], model, *([revision] if revision else [])),
        replicas=replicas,
        ipv6=item.get("addressType") == "IPv6",
    )


def _pod(endpoint: dict[str, Any], address: str) -> str:
    return str((endpoint.get("targetRef") or {}).get("uid") or address)


def _is_ready(conditions: dict[str, Any]) -> bool:
    return conditions.get("ready") is not False and not conditions.get("terminating")
