"""A wrong `spec.autoscaling` is answered with what is wrong, what was expected, what to do."""

import pytest

from mm_api.v1alpha1.validation import validate
from support.model_documents import at, document
from support.model_namespace import Api

OBJECTIVE = {"metric": "TimeToFirstToken", "target": "500ms"}
SCHEDULE = {"name": "a", "start": "0 8 * * *", "duration": "1h", "minReplicas": 1}


def _objective(field: str, value: object) -> dict[str, object]:
    return {"objectives": [{**OBJECTIVE, field: value}]}


MISTAKES = [
    pytest.param(
        _objective("target", 0),
        "objectives[0].target: 0 has the wrong type: write text, for example 500ms",
        "objectives[0].target in body must be of type string",
        id="target-zero",
    ),
    pytest.param(
        _objective("target", "0s"),
        "objectives[0].target: '0s' is not a duration above zero: write for example 500ms, 90s, "
        "2h or 1h30m",
        "target is not a duration above zero: write for example 500ms, 2s or 1m30s",
        id="target-zero-seconds",
    ),
    pytest.param(
        _objective("percentile", 0),
        "objectives[0].percentile: 0 is not allowed: write a whole number from 1 to 99",
        "objectives[0].percentile in body should be greater than or equal to 1",
        id="percentile-zero",
    ),
    pytest.param(
        _objective("percentile", 101),
        "objectives[0].percentile: 101 is not allowed: write a whole number from 1 to 99",
        "objectives[0].percentile in body should be less than or equal to 99",
        id="percentile-101",
    ),
    pytest.param(
        _objective("percentile", "p95"),
        "objectives[0].percentile: 'p95' has the wrong type: write a whole number from 1 to 99",
        "objectives[0].percentile in body must be of type integer",
        id="percentile-text",
    ),
    pytest.param(
        _objective("metric", "TTFT"),
        "objectives[0].metric: 'TTFT' is not allowed: use one of 'TimeToFirstToken', "
        "'InterTokenLatency', 'RequestLatency' or 'QueueTime'",
        'Unsupported value: "TTFT": supported values: "TimeToFirstToken", "InterTokenLatency", '
        '"RequestLatency", "QueueTime"',
        id="unknown-metric",
    ),
    pytest.param(
        {"engine": "HPA"},
        "engine: 'HPA' is not allowed: use one of 'Builtin' or 'KEDA'",
        'Unsupported value: "HPA": supported values: "Builtin", "KEDA"',
        id="removed-engine",
    ),
    pytest.param(
        {"minReplicas": 3, "objectives": [OBJECTIVE]},
        "minReplicas: minReplicas must not be above maxReplicas, which is 1 where it is absent: "
        "lower minReplicas or raise maxReplicas",
        "minReplicas must not be above maxReplicas, which is 1 where it is absent: lower "
        "minReplicas or raise maxReplicas",
        id="fewest-above-most",
    ),
    pytest.param(
        {"minReplicas": 0, "objectives": [OBJECTIVE]},
        "minReplicas: minReplicas must be at least 1: nothing holds requests while no pod runs; "
        "write 1 or more, or remove it",
        "minReplicas must be at least 1: nothing holds requests while no pod runs; write 1 or "
        "more, or remove it",
        id="no-replica",
    ),
    pytest.param(
        {"schedules": [{**SCHEDULE, "start": "daily"}]},
        "schedules[0].start: start is not a cron line: write minute (0-59), hour (0-23), day of "
        "month (1-31), month (1-12 or JAN) and day of week (0-7 or SUN), for example 0 8 * * 1-5",
        "and day of week (0-7 or SUN), for example 0 8 * * 1-5",
        id="schedule-in-words",
    ),
    pytest.param(
        {"schedules": [{**SCHEDULE, "timeZone": "Berlin!"}]},
        "schedules[0].timeZone: 'Berlin!' is not allowed: string should match pattern "
        "'^[A-Za-z0-9_+/-]+$', for example Europe/Berlin",
        "schedules[0].timeZone in body should match",
        id="time-zone",
    ),
    pytest.param(
        {"prometheus": {"addresses": ["prometheus:9090"]}},
        "prometheus.addresses[0]: 'prometheus:9090' is not allowed: string should match pattern "
        r"'^https?://([-._a-zA-Z0-9]+|\[[:.0-9a-fA-F]+\])(:[0-9]{1,5})?(/[^\s?#@\\]*)?$'"
        ", for example http://prometheus.monitoring.svc:9090",
        "prometheus.addresses[0] in body should match",
        id="address-without-scheme",
    ),
]


@pytest.mark.parametrize(("spec", "reported", "_refused"), MISTAKES)
def test_validate_reports(spec: dict[str, object], reported: str, _refused: str) -> None:
    """One mistake is one line: the field, what stands there, what may stand there."""
    assert [f"spec.autoscaling.{reported}"] == list(
        map(str, validate(document(at("autoscaling", spec))))
    )


@pytest.mark.cluster
def test_the_api_server_refuses(api: Api) -> None:
    """Nothing of it is applied; types, bounds and patterns are named in Kubernetes' own words."""
    models = [document(at("autoscaling", one.values[0])) for one in MISTAKES]
    for one, said in zip(MISTAKES, api.refusals(models), strict=True):
        assert "spec.autoscaling." in said
        assert str(one.values[2]) in said
