"""What waits in routers moves replicas at the look that counted it, where there are routers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.scaler import Scaler
from support.cases import cases
from support.model_documents import document, in_slot
from support.one_tick import MADE, NoOtherReader, pod, scaler_of

SLEEPER, FIRST, SECOND = Key("demo", "llava"), Key("demo", "first"), Key("demo", "second")


@dataclass
class Site(NoOtherReader):
    """Models, and an API server that takes numbers of replicas."""

    models: ModelCache = field(default_factory=ModelCache)
    cache: Cache = field(default_factory=Cache)
    moves: list[tuple[str, int]] = field(default_factory=list)

    def put(self, key: Key, replicas: int, spec: dict[str, Any], version: str = "1") -> None:
        metadata = {"name": key.name, "namespace": key.namespace, "uid": key.name}
        metadata |= {"creationTimestamp": MADE, "resourceVersion": version}
        made = document({**spec, "replicas": replicas}, key.name)
        self.models.put({**made, "metadata": {**metadata, "generation": int(version)}})

    async def merge(self, _: Any, __: str, name: str, body: Any, **___: Any) -> dict[str, Any]:
        self.moves.append((name, body["spec"]["replicas"]))
        return {"metadata": {"resourceVersion": "2"}}


@asynccontextmanager
async def asleep(**changes: Any) -> AsyncIterator[tuple[Scaler, Site]]:
    site: Any = Site()
    site.put(SLEEPER, 0, {"autoscaling": {"minReplicas": 0}})
    held = {"held": lambda _key: 3, "hold_problem": lambda _namespace: "", **changes}
    async with scaler_of(site.models, site.cache, site, **held) as scaler:
        yield scaler, site


async def test_a_tick_does_not_trust_an_older_count() -> None:
    """Those requests may be answered, and the model put to sleep since."""
    async with asleep() as (scaler, site):
        await scaler.tick()
        assert site.moves == []

        await scaler.wake([SLEEPER, Key("demo", "unknown")])
        assert site.moves == [(SLEEPER.name, 1)]


async def test_without_routers_the_fewest_is_one() -> None:
    async with asleep(held=lambda _key: 0, hold_problem=None) as (scaler, site):
        await scaler.tick()
        view = scaler.view(SLEEPER.name)

    assert site.moves == [(SLEEPER.name, 1)]
    assert view is not None
    assert "minReplicas 0 counts as 1, because nothing holds requests" in view.message


@cases("now swapped", {"time-is-over": (30.0, True), "time-is-not-over": (29.0, False)})
async def test_a_look_swaps_the_models_of_a_slot(now: float, *, swapped: bool) -> None:
    """The one that has the GPU goes first; the one that waits comes when its pod has gone."""
    began = datetime.fromisoformat(MADE).timestamp()
    async with asleep(
        held=lambda key: int(key == SECOND),
        waited_seconds=lambda _key: 5.0,
        clock=lambda: began + now,
    ) as (scaler, site):
        site.put(FIRST, 1, in_slot())
        site.put(SECOND, 0, in_slot())
        site.cache.put("Pod", pod(FIRST.name))
        await scaler.wake([SECOND])
        assert site.moves == []  # before a tick it is not known who shares the slot

        await scaler.tick()
        await scaler.wake([SECOND])
        assert site.moves == [(FIRST.name, 0)] * swapped
        view = scaler.view(SECOND.name)
        assert view is not None
        assert (view.status.reason, view.reason) == ("SlotBusy", "WaitingForSlot")

        site.put(FIRST, 0, in_slot(), version="2")
        await scaler.wake([SECOND])
        assert site.moves == [(FIRST.name, 0)] * swapped  # its pod has not ended
        site.cache.remove("Pod", pod(FIRST.name))
        await scaler.wake([SECOND])
        assert site.moves[-1] == (SECOND.name, 1)
