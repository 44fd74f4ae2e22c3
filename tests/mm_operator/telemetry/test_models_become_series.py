"""What the operator knows of a model is there for Prometheus, and never breaks a scrape."""

from datetime import UTC, datetime
from typing import Any

from mm_api.metrics import MODEL_METRICS
from mm_operator.cluster.models import ModelCache
from mm_operator.status.series import bucket_at, samples_of
from mm_operator.telemetry.metrics import Metrics, count_builds
from support.cases import cases
from support.golden import Golden
from support.prometheus import promtool

OBJECTIVES = [
    {"metric": "TimeToFirstToken", "percentile": 95, "target": "500ms"},
    {"metric": "RequestLatency", "percentile": 99, "target": "6s"},
]
SPEC: dict[str, Any] = {
    "replicas": 2,
    "autoscaling": {"minReplicas": 1, "maxReplicas": 4, "objectives": OBJECTIVES},
    "vision": {"gpu": {"product": "NVIDIA-T4"}},
}
STATUS: dict[str, Any] = {
    "replicas": 2,
    "readyReplicas": 1,
    "encoders": {"replicas": 3, "readyReplicas": 2, "scaling": {"desired": 3}},
    "plan": {"gpu": {"product": "NVIDIA-L4"}, "gpuMemory": [{"rank": 0}, {"rank": 1}]},
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "ReplicasAvailable"},
        {"type": "ScalingActive", "status": "Unknown", "reason": "NoData"},
    ],
}


def scraped(items: list[dict[str, Any]]) -> str:
    cache, metrics = ModelCache(), Metrics()
    for item in items:
        cache.put(item)
    metrics.collect_models(cache.samples)
    return metrics.snapshot()().decode()


def model(spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        "namespace": "demo",
        "name": "tiny",
        "uid": "1",
        "generation": 1,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def test_conditions_replicas_and_objectives_are_series() -> None:
    lines = [
        line for line in scraped([model(SPEC, STATUS)]).splitlines() if line.startswith("mm_model_")
    ]
    who = 'model="tiny",namespace="demo"'

    assert sorted(lines) == sorted(
        [
            f'mm_model_condition{{condition="Ready",{who},reason="ReplicasAvailable"}} 1.0',
            f'mm_model_condition{{condition="ScalingActive",{who},reason="NoData"}} 0.0',
            f'mm_model_gpus{{gpu="NVIDIA-L4",{who}}} 4.0',
            f'mm_model_gpus{{gpu="NVIDIA-T4",{who}}} 3.0',
            f'mm_model_encoders{{{who},state="ready"}} 2.0',
            f'mm_model_encoders{{{who},state="desired"}} 3.0',
            f'mm_model_replicas{{{who},state="desired"}} 2.0',
            f'mm_model_replicas{{{who},state="ready"}} 1.0',
            f'mm_model_replicas{{{who},state="min"}} 1.0',
            f'mm_model_replicas{{{who},state="max"}} 4.0',
            f'mm_model_objective_seconds{{bucket="0.5",{who},objective="TimeToFirstToken"}} 0.5',
            f'mm_model_objective_seconds{{bucket="5.0",{who},objective="RequestLatency"}} 6.0',
            f'mm_model_objective_ratio{{{who},objective="TimeToFirstToken"}} 0.95',
            f'mm_model_objective_ratio{{{who},objective="RequestLatency"}} 0.99',
        ]
    )


@cases(
    "seconds expected",
    {
        "a-bucket": (0.5, "0.5"),
        "between-two-the-stricter": (0.6, "0.5"),
        "complete-number-as-clients-write-it": (1, "1.0"),
        "below-the-smallest": (0.001, "0.005"),
        "above-the-largest": (1000, "30.0"),
    },
)
def test_a_target_is_judged_at_a_bucket(seconds: float, expected: str) -> None:
    """Attainment is counted at the largest bucket that is not above the target."""
    assert bucket_at("mm_time_to_first_token_seconds", seconds) == expected


@cases(
    "spec status",
    {
        "nothing-yet": ({}, {}),
        "nulls": ({"autoscaling": None, "replicas": None}, {"conditions": None}),
        "what-another-version-wrote": (
            {"autoscaling": {"objectives": [{"metric": "Unheard", "target": "x"}, {}]}},
            {"conditions": [{}], "plan": {"gpu": None, "gpuMemory": None}, "replicas": None},
        ),
    },
)
def test_an_odd_model_breaks_no_scrape(spec: dict[str, Any], status: dict[str, Any]) -> None:
    text = scraped([model(spec, status)])

    assert 'mm_model_replicas{model="tiny",namespace="demo",state="ready"} 0.0' in text
    assert "mm_model_objective" not in "".join(
        line for line in text.splitlines() if not line.startswith("#")
    )


def test_samples_use_the_catalogue_only() -> None:
    labels = {metric.name: metric.labels for metric in MODEL_METRICS}
    samples = list(samples_of("demo", "tiny", SPEC, STATUS))

    assert {sample.metric for sample in samples} == set(labels)
    assert [len(sample.labels) for sample in samples] == [
        len(labels[sample.metric]) for sample in samples
    ]


def test_prometheus_finds_nothing_to_complain_of() -> None:
    ours = "\n".join(
        line
        for line in scraped([model(SPEC, STATUS)]).splitlines()
        if " mm_" in line or line.startswith("mm_")
    )
    done = promtool("check", "metrics", stdin=ours + "\n")

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUNNING = {
    "fingerprint": "a",
    "phase": "Building",
    "startedAt": "2026-01-02T03:03:05Z",
    "stepSeconds": {"fetch": 2.0},
}
DONE = {**RUNNING, "phase": "Succeeded", "storedBytes": 10}


def status(build: dict[str, Any], reason: str = "BuildSucceeded") -> dict[str, Any]:
    return {"build": build, "conditions": [{"type": "EngineBuilt", "reason": reason}]}


def counted(*statuses: dict[str, Any]) -> set[str]:
    metrics = Metrics()
    for before, after in zip(({}, *statuses), statuses, strict=False):
        count_builds(metrics, before, after, NOW)
    lines = metrics.snapshot()().decode().splitlines()
    return {
        line.removeprefix("mm_operator_")
        for line in lines
        if line.startswith(("mm_operator_build", "mm_operator_engine"))
        and "_bucket" not in line
        and "_created" not in line
        and not line.endswith(" 0.0")
    }


BUILDS: dict[str, list[dict[str, Any]]] = {
    "a-step": [status(RUNNING)],
    "reported-once": [status(RUNNING), status(RUNNING)],
    "built": [status(RUNNING), status(DONE), status(DONE)],
    "reused-from-a-model": [status({**DONE, "reusedFrom": "demo/one"})],
    "reused-from-the-store": [status({**DONE, "reusedFrom": "store"})],
    "failed-before-its-pod-was-seen": [
        status({"phase": "Failed", "failedStep": "export"}, "BuildOutOfMemory")
    ],
}


def test_samples(golden: Golden) -> None:
    found = {name: sorted(counted(*statuses)) for name, statuses in BUILDS.items()}
    golden.check_yaml("builds.yaml", found)
