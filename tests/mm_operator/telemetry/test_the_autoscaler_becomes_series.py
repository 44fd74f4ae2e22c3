"""What the autoscaler knows of a model is there for Prometheus, each number under its name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mm_api.metrics import SCALING_METRICS
from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.autoscaling import RequestRate, Traffic
from mm_operator.cluster.keys import Key
from mm_operator.scaling.evaluation import objectives_of
from mm_operator.scaling.model_autoscaler import ModelAutoscaler, Requested
from mm_operator.scaling.pods import ScaledPod
from mm_operator.scaling.scaler import samples
from mm_operator.scaling.traffic import Reading
from mm_operator.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from mm_operator.scaling.scaler import Scaler

NOW = 1_000_000.0
SPEC = AutoscalingSpec.model_validate(
    {"maxReplicas": 4, "objectives": [{"metric": "TimeToFirstToken", "target": "500ms"}]}
)
QUIET = RequestRate(requests=1.0, image_tokens=0.0, text_tokens=10.0)
READING = Reading(
    Traffic(QUIET, QUIET, mean_output_tokens=None, in_flight=0.1),
    attainment={"TimeToFirstTokenP95": 0.75},
)


@dataclass(frozen=True)
class Followed:
    """What a scaler shows of the one model that it follows."""

    autoscaler: ModelAutoscaler

    def autoscalers(self) -> Iterator[tuple[Key, int, ModelAutoscaler]]:
        yield Key("demo", "tiny"), 2, self.autoscaler


def scraped(autoscaler: ModelAutoscaler) -> dict[str, float]:
    metrics = Metrics()
    scaler = cast("Scaler", Followed(autoscaler))
    metrics.collect_scaling(lambda: samples(scaler))
    lines = metrics.snapshot()().decode().splitlines()
    who = 'model="tiny",namespace="demo"'
    found = (line.rsplit(" ", 1) for line in lines if who in line)
    return {
        name.replace(who, "").replace("{,", "{").replace(",}", "}"): float(value)
        for name, value in found
    }


def decided(*readings: tuple[float, Reading]) -> ModelAutoscaler:
    pod = ScaledPod(
        name="a",
        uid="1",
        ready=True,
        terminating=False,
        created_at=NOW - 11,
        scheduled_at=NOW - 10,
        pulled_at=NOW - 8,
        loaded_at=NOW - 3,
        ready_at=NOW,
    )
    autoscaler, requested = ModelAutoscaler({}, NOW, 2), Requested(SPEC, 2, slots_per_replica=1)
    objectives = objectives_of(SPEC, slots_per_replica=1)
    for now, reading in readings:
        autoscaler.decide(requested, objectives, pods=[pod], reading=reading, now=now)
    return autoscaler


def test_every_number_has_its_series() -> None:
    autoscaler = decided((NOW, READING))
    decision = autoscaler.decision
    autoscaler.moved(1, 2, "Demand", NOW)
    autoscaler.moved(2, 1, "Demand", NOW + 60)
    found = scraped(autoscaler)
    vetoes = {name: value for name, value in found.items() if "veto" in name}

    assert found["mm_autoscaling_desired_replicas{}"] == decision.replicas
    assert found["mm_autoscaling_applied_replicas{}"] == 2
    assert found["mm_autoscaling_metrics_available{}"] == 1
    assert found['mm_autoscaling_slo_attainment{objective="TimeToFirstTokenP95"}'] == 0.75
    assert found['mm_autoscaling_cold_start_seconds{phase="total"}'] == 10
    assert found["mm_autoscaling_decision_age_seconds{}"] > 0
    assert found['mm_autoscaling_changes_total{direction="up"}'] == 1
    assert found['mm_autoscaling_changes_total{direction="down"}'] == 1
    assert found["mm_autoscaling_reversals_total{}"] == 1
    assert decision.vetoes
    assert vetoes == {
        f'mm_autoscaling_veto_total{{veto="{one.veto}"}}': 1 for one in decision.vetoes
    }
    assert {name.partition("{")[0] for name in found} == {
        one.name for one in SCALING_METRICS if one.labels
    }


def test_silence_is_reported() -> None:
    silent = decided((NOW, READING), (NOW + 600, Reading(None, "Prometheus is away.")))
    found = scraped(silent)

    assert found["mm_autoscaling_metrics_available{}"] == 0
    assert silent.decided_at == NOW
