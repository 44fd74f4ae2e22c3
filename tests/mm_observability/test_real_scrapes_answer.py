"""Every expression is queried of a real Prometheus that scrapes a real model under real load."""

import asyncio
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mm_api.labels import APP_COMPONENT, Component
from mm_devcluster.demo.monitoring import PORT
from support.empty_queries import EMPTY_DASHBOARDS, LEGITIMATELY_EMPTY
from support.eventually import eventually
from support.installed import Installed, Space, model_space
from support.pod_targets import machine_address, scrape_config, write_targets
from support.prometheus import Prometheus, running_prometheus
from support.promql import metrics_in, substituted
from support.queries import RULES, every_alert, every_query
from support.tiny_llava import CHECKPOINT
from support.upstream_metrics import TRITON

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

MODEL, SIBLING = "watched", "sibling"
CACHE = "16Mi"
LOAD = "90s"
"""Longer than the dashboards' window of a minute, and some scrapes."""
LOAD_SECONDS = 240.0
TOUCHES, TOUCH_SECONDS = 4, 3.0
TICKS_SECONDS = 120.0
"""Some ticks of 15 s, and the writing of what they said."""
OBJECTIVES = [
    {"metric": name, "percentile": 95, "target": "5s"}
    for name in ("TimeToFirstToken", "InterTokenLatency", "RequestLatency", "QueueTime")
]


@dataclass(frozen=True)
class Watched:
    """A Prometheus that has watched a model under load, and what the load was reported."""

    prometheus: Prometheus
    report: dict[str, object]


@pytest.fixture(name="watched", scope="module")
def watched_model(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("prometheus")
    targets = folder / "targets.json"
    host = machine_address(installed.cluster)
    targets.write_text("[]")
    with (
        running_prometheus(
            folder, scrape_config(targets, RULES, "2s"), port=PORT, address=host
        ) as prometheus,
        model_space(installed, "observed") as space,
    ):
        write_targets(installed.cluster, targets)
        space.upload(CHECKPOINT, "tiny")
        scaling = {
            "mode": "Recommend",
            "maxReplicas": 2,
            "objectives": OBJECTIVES,
        }
        kept = {"featureCacheBytes": CACHE}
        engine = {"kvCache": {"reuse": True}}
        space.apply(space.model(MODEL, "tiny", autoscaling=scaling, vision=kept, engine=engine))
        space.wait_ready(MODEL)
        space.apply({**space.model(SIBLING, "tiny"), "spec": _paused(space)})
        space.wait(SIBLING, "EngineBuilt", lambda condition: condition.holds)
        _two_replicas(space)
        _let_the_second_go_first(space)
        write_targets(installed.cluster, targets)
        report = asyncio.run(_loaded(space))
        _reconcile_now_and_then(space)
        _one_replica(space)
        yield Watched(prometheus, report)


def _paused(space: Space) -> dict[str, object]:
    """Return the spec of a model that has its engine and no pod: the node has two cores."""
    return {**space.model(SIBLING, "tiny")["spec"], "replicas": 0}


def _two_replicas(space: Space) -> None:
    """Request one more by hand: the policy, which needs one, has vetoes against giving it back."""
    space.kubectl("scale", "mmm", MODEL, "--replicas=2")
    eventually(lambda: _scaling(space).get("vetoes"), seconds=TICKS_SECONDS)


def _let_the_second_go_first(space: Space) -> None:
    """The pod that stays must have its address, and answers, in what Prometheus has seen.

    Of two pods of about one age Kubernetes ends either (LogarithmicScaleDown).
    """
    eventually(lambda: len(_servers(space)) == 2, seconds=TICKS_SECONDS)
    second = max(_servers(space), key=lambda pod: pod["metadata"]["creationTimestamp"])
    cost = "controller.kubernetes.io/pod-deletion-cost=-1"
    space.kubectl("annotate", "pod", second["metadata"]["name"], cost)


def _servers(space: Space) -> list[dict[str, Any]]:
    listed = space.get("pods", "--selector", f"{APP_COMPONENT}={Component.SERVER}")["items"]
    return [pod for pod in listed if pod["status"].get("podIP")]


def _one_replica(space: Space) -> None:
    """Undo it, last of all: the change is noted by the next tick, and annotated for two minutes."""
    space.kubectl("scale", "mmm", MODEL, "--replicas=1")
    eventually(lambda: len(_scaling(space).get("history") or ()) == 2, seconds=TICKS_SECONDS)


def _scaling(space: Space) -> dict[str, Any]:
    found: dict[str, Any] = (space.read(MODEL).get("status") or {}).get("scaling") or {}
    return found


def _reconcile_now_and_then(space: Space) -> None:
    """Touch the model a few times: at rest the operator has nothing to do, and shows it."""
    for number in range(TOUCHES):
        space.kubectl("annotate", "mmm", MODEL, f"example.org/touched={number}", "--overwrite")
        time.sleep(TOUCH_SECONDS)


async def _loaded(space: Space) -> dict[str, object]:
    address = f"http://{space.get('service', MODEL)['spec']['clusterIP']}/v1"
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "mm-lab"),
        *("bench", address, "--users", "4", "--duration", LOAD, "--quiet", "-o", "json"),
        *("--images", "0:1,1:3", "--max-tokens", "16", "--picture-size", "56"),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LOAD_SECONDS):
        output, _ = await process.communicate()
    report: dict[str, object] = json.loads(output)
    return report


def has_value(prometheus: Prometheus, expression: str) -> bool:
    found = prometheus.query(substituted(expression))
    return any(not math.isnan(float(series["value"][1])) for series in found)


def test_the_load_was_answered(watched: Watched) -> None:
    """The claims below are about a model that really worked."""
    assert watched.report["errors"] == {}
    assert int(str(watched.report["answered"])) > 50


def test_each_pod_is_one_target(watched: Watched) -> None:
    """A pod with annotations and several ports has one page in Prometheus, not two."""
    found = watched.prometheus.query("count by (namespace, pod) (mm_requests_running)")

    assert {one["value"][1] for one in found} == {"1"}
    assert {label in one["metric"] for one in found for label in ("namespace", "pod")} == {True}


def test_every_panel_has_data(watched: Watched) -> None:
    # The last scrape and the rules that read it are a few seconds behind the load.
    time.sleep(5)
    empty = {
        place
        for place, query in every_query()
        if not has_value(watched.prometheus, query.expr)
        and place.split(" / ")[0] not in EMPTY_DASHBOARDS
    }

    unexplained = sorted(empty - set(LEGITIMATELY_EMPTY))
    assert not unexplained, "\n".join(unexplained)


def test_the_list_of_empty_ones_names_real_panels() -> None:
    """An entry whose panel is gone, or was renamed, would hide the next empty one."""
    places = {place for place, _ in every_query()}
    assert set(LEGITIMATELY_EMPTY) - places == set()
    assert set(EMPTY_DASHBOARDS) - {place.split(" / ")[0] for place in places} == set()


def test_every_rule_is_evaluated(watched: Watched) -> None:
    """No rule fails on real series: no two of a side match one of the other."""

    def states() -> dict[str, str]:
        groups = watched.prometheus.api("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    eventually(lambda: set(states().values()) == {"ok"}, seconds=30)
    found = states()

    assert {alert["alert"] for alert in every_alert()} <= set(found)


def test_objectives_are_judged(watched: Watched) -> None:
    budget = watched.prometheus.query("namespace_model_objective:mm_slo_budget:ratio")
    found = watched.prometheus.query("namespace_model_objective:mm_slo_bad:ratio_rate5m")

    assert {one["metric"]["objective"] for one in found} == {
        str(objective["metric"]) for objective in OBJECTIVES
    }
    assert {round(float(one["value"][1]), 3) for one in budget} == {0.05}


def test_triton_has_the_metrics_that_are_requested(watched: Watched) -> None:
    """The names that come from Triton's documents are those of the real server."""
    names = set(watched.prometheus.api("label/__name__/values"))

    assert TRITON - names == set()


def test_a_healthy_model_fires_no_alert(watched: Watched) -> None:
    active = watched.prometheus.api("alerts")["alerts"]

    assert [alert["labels"]["alertname"] for alert in active] == []


def test_recorded_series_are_requested(watched: Watched) -> None:
    recorded = {
        rule["name"]
        for group in watched.prometheus.api("rules")["groups"]
        for rule in group["rules"]
        if rule["type"] == "recording"
    }
    requested = {name for _, query in every_query() for name in metrics_in(query.expr)}
    requested |= {name for alert in every_alert() for name in metrics_in(alert["expr"])}
    goods = {"namespace_model_objective:mm_slo_good:rate5m"}

    assert recorded - requested - goods == set()
    assert [name for name in sorted(recorded) if not has_value(watched.prometheus, name)] == []
