"""Puts one operator process together and takes it apart in the right order.

Stop order matters: first the writes, then the Lease is given back (so that another replica leads
within two seconds), then the streams, kopf last because its end cancels every task there is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from types import ModuleType
from typing import Any

from kubernetes.aio.client import ApiClient

from mm_operator.cluster.apply import Applier
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.cache_sync import CacheSync, most_watches
from mm_operator.cluster.claims import ClaimModes
from mm_operator.cluster.client import (
    REQUEST_SECONDS,
    Client,
    LeaseObject,
    WritesForbiddenError,
    connect,
    minor_version,
)
from mm_operator.cluster.definition import DefinitionKeeper
from mm_operator.cluster.events import EventPoster
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.namespaces import ServedNamespaces
from mm_operator.cluster.nodes import NodeCache
from mm_operator.cluster.observe import Observer
from mm_operator.cluster.pod_diagnostics import PodDiagnostics
from mm_operator.cluster.rollout_turns import RolloutTurns
from mm_operator.control.controller import Controller
from mm_operator.control.queue import WorkQueue
from mm_operator.leadership.elector import Elector
from mm_operator.reconcile import Reconciler
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.engines import engine_problem
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.scaler import Scaler, samples
from mm_operator.servers.rounds import Servers
from mm_operator.servers.routers import Routers
from mm_operator.settings import Settings
from mm_operator.shutdown import leave_late, stop_on_signal
from mm_operator.telemetry.event_loop import freeze_growth, watch_loop
from mm_operator.telemetry.logs import current_key
from mm_operator.telemetry.metrics import Metrics, count_builds
from mm_operator.telemetry.server import serve

_LOG = logging.getLogger(__name__)

_PART_SECONDS = 7.0
"""A part that does not end by then is left: the process ends a second later, whatever it does."""

_SETTLE_SECONDS = 0.1
"""A Job that starts changes three times within this (Job, pod, pod's condition): one reconcile."""


class Operator:
    """One replica. `run` returns after SIGTERM or SIGINT and raises when a part failed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._models = ModelCache(
            on_change=self._queue.add, on_spec_change=partial(self._queue.add, priority=True)
        )
        self._cache = Cache(on_change=lambda key: self._queue.add_after(key, _SETTLE_SECONDS))
        self._nodes = NodeCache(on_change=self._requeue_all)
        self._turns = RolloutTurns(settings.max_rolling_models, self._queue.add)
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        stop_on_signal(lambda: loop.call_soon_threadsafe(self._stop.set))
        settings, metrics = self._settings, self._metrics
        metrics.gauges["mm_operator_namespaces_missing"].set(len(settings.missing_namespaces))
        metrics.prices(dict(settings.gpu_hour_prices))
        for name in settings.missing_namespaces:
            _LOG.warning(
                "namespace %s did not exist when the operator was installed and is not served:"
                " create it, then run helm upgrade",
                name,
            )
        watches = most_watches(len(settings.namespaces))
        api = await connect(settings.kubeconfig, settings.context, watches=watches)
        elector = Elector(
            self._open_lease,
            settings.identity,
            self._lead,
            on_change=metrics.gauges["mm_operator_leader"].set,
        )
        client = Client(api, listener=metrics.requested, may_write=elector.leads)
        self._definition = DefinitionKeeper(
            Client(api, listener=metrics.requested),
            use=settings.definition,
            look_seconds=settings.resync_seconds,
            on_outdated=metrics.gauges["mm_operator_definition_outdated"].set,
        )
        diagnostics = PodDiagnostics(client, self._cache)
        self._namespaces = ServedNamespaces(
            client,
            f"{settings.lease_namespace}/{settings.lease_name}",
            role=settings.role_name,
            namespaced=bool(settings.namespaces),
            on_change=self._look_at_namespace,
        )
        serves = self._namespaces.serves
        metrics.collect_models(lambda: self._models.samples(serves) if elector.leads() else ())
        applier = Applier(client, self._cache, self._models, wake=self._queue.add)
        self._cache_sync = CacheSync(
            client,
            self._models,
            self._cache,
            self._nodes if settings.watch_nodes else None,
            self._namespaces,
            namespaces=settings.namespaces,
            keda=settings.keda is not None,
            groups=settings.leader_worker_set,
            minor=await minor_version(api),
            resync_seconds=settings.resync_seconds,
            after_resync=lambda: self._resynced(diagnostics, applier),
        )
        self._events = EventPoster(
            client,
            settings.identity,
            busy=lambda: self._queue.depth > 0,
            on_drop=metrics.counting("mm_operator_events_dropped_total"),
        )
        self._routers = None
        if settings.router_service:
            self._routers = Routers(
                client,
                settings.lease_namespace,
                settings.router_service,
                on_evidence=self._queue.add,
            )
        self._scaler = Scaler(
            models=self._models,
            cache=self._cache,
            client=client,
            prometheus=OwnPrometheus(settings.prometheus),
            conflicts=ConflictingAutoscalers(client),
            requeue=self._queue.add,
            interval_seconds=settings.scaling_interval_seconds,
            engine_problem=partial(
                engine_problem,
                keda=settings.keda,
                keda_missing=self._cache_sync.keda_missing,
            ),
            report_seconds=metrics.histograms["mm_autoscaling_tick_seconds"].observe,
            serves=serves,
            held=self._routers.held if self._routers else lambda _key: 0,
            waited_seconds=self._routers.waited_seconds if self._routers else lambda _key: 0.0,
            hold_problem=self._routers.problem if self._routers else None,
        )
        self._servers = Servers(
            models=self._models,
            cache=self._cache,
            wake=self._queue.add,
            interval_seconds=settings.server_look_seconds,
        )
        metrics.collect_scaling(lambda: samples(self._scaler) if elector.leads() else ())
        self._controller = self._make_controller(client, diagnostics, applier)
        runner, port = await serve(
            settings.port,
            ready=lambda: self._cache_sync.problem() or self._definition.problem(),
            metrics=self._metrics_now,
        )
        _LOG.info("serving health and metrics on port %d", port)
        try:
            await self._run_parts(elector, api)
        finally:
            await applier.close()
            await runner.cleanup()
            await client.close()

    async def _run_parts(self, elector: Elector, api: ApiClient) -> None:
        """Run every part until one fails or a signal comes; then stop them in order."""
        election = asyncio.create_task(elector.run(), name="election")
        definition = asyncio.create_task(self._definition.run(), name="definition")
        caches = asyncio.create_task(self._cache_sync.run(), name="caches")
        models = asyncio.create_task(self._watch_models(api), name="models")
        stopping = asyncio.create_task(self._stop.wait(), name="signal")
        lag = asyncio.create_task(
            watch_loop(self._metrics.histograms["mm_operator_event_loop_lag_seconds"].observe),
            name="event loop lag",
        )
        held = freeze_growth(lambda: len(self._cache) + len(self._models))
        frozen = asyncio.create_task(held, name="garbage collector")
        parts = (election, definition, caches, models, lag, frozen)
        await asyncio.wait({*parts, stopping}, return_when=asyncio.FIRST_COMPLETED)
        failed = [part for part in parts if part.done()]
        if failed:
            leave_late()
        for part in parts:
            part.cancel()
            await asyncio.wait({part}, timeout=_PART_SECONDS)
        stopping.cancel()
        for part in failed:
            part.result()
            raise RuntimeError(f"the part {part.get_name()!r} ended unexpectedly")

    async def _lead(self) -> None:
        await self._cache_sync.caught_up()
        self._turns.restart(self._models)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.lead(), name="controller")
            group.create_task(self._events.run(), name="events")
            group.create_task(self._scaler.lead(), name="autoscaler")
            group.create_task(self._servers.lead(), name="servers")
            if self._routers is not None:
                group.create_task(self._routers.lead(self._scaler.wake), name="routers")

    async def _watch_models(self, api: ApiClient) -> None:
        """Run kopf, which feeds the cache of models, once there is something to watch."""
        await self._cache_sync.defined()
        namespaces = self._settings.namespaces
        # In a thread: importing it takes half a second, and nothing may hold the loop for so long.
        handlers = await asyncio.to_thread(_load_handlers)
        await handlers.watch_models(self._models, api, namespaces)

    def _make_controller(
        self, client: Client, diagnostics: PodDiagnostics, applier: Applier
    ) -> Controller[Key]:
        settings = self._settings
        claims = ClaimModes(client)
        observer = Observer(
            self._models,
            self._cache,
            self._nodes,
            diagnostics=diagnostics,
            claims=claims,
            settings=settings,
            claims_missing=self._cache_sync.claims_missing,
            groups_missing=self._cache_sync.groups_missing,
            warm_up_problem=self._servers.warm_up_problem,
        )
        reconciler = Reconciler(
            client=client,
            models=self._models,
            observer=observer,
            diagnostics=diagnostics,
            claims=claims,
            namespaces=self._namespaces,
            turns=self._turns,
            applier=applier,
            clock=lambda: datetime.now(UTC),
            on_error=self._metrics.counting("mm_operator_errors_total"),
            events=self._events,
            scaling=self._scaler.view,
            servers=self._servers.notable,
            evidence=self._routers.evidence if self._routers else lambda _key: (),
            on_status=self._status_written,
        )
        return Controller(
            self._queue,
            reconciler.reconcile,
            everything=self._models.unobserved,
            reports=self._metrics.reconciled,
            workers=settings.workers,
            fence=WritesForbiddenError,
            on_key=_log_key,
        )

    def _status_written(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        count_builds(self._metrics, old, new, datetime.now(UTC))

    @asynccontextmanager
    async def _open_lease(self) -> AsyncIterator[LeaseObject]:
        """Connect for the election alone, in the loop of its thread."""
        settings = self._settings
        api = await connect(settings.kubeconfig, settings.context)
        client = Client(api, timeout_seconds=REQUEST_SECONDS, listener=self._metrics.requested)
        try:
            yield LeaseObject(client, settings.lease_namespace, settings.lease_name)
        finally:
            await client.close()

    def _resynced(self, diagnostics: PodDiagnostics, applier: Applier) -> None:
        diagnostics.forget_gone()
        applier.forget_gone()
        self._requeue_all()

    def _requeue_all(self) -> None:
        for key in self._models:
            self._queue.add(key)

    def _look_at_namespace(self, namespace: str) -> None:
        for key in self._models:
            if key.namespace == namespace:
                self._queue.add(key)

    def _metrics_now(self) -> Callable[[], bytes]:
        gauges = self._metrics.gauges
        gauges["mm_operator_queue_depth"].set(self._queue.depth)
        self._metrics.models(self._models.ready(), len(self._models))
        gauges["mm_operator_namespaces_refused"].set(self._namespaces.refused())
        gauges["mm_operator_builds_waiting"].set(self._models.waiting())
        return self._metrics.snapshot()


def _log_key(key: Key | None) -> None:
    current_key.set(str(key or ""))


def _load_handlers() -> ModuleType:
    from mm_operator import handlers  # noqa: PLC0415

    return handlers
