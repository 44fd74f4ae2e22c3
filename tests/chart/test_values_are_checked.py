"""Helm refuses values that are misspelt, of a wrong type or out of bounds."""

from typing import Any

import helm_python as helm
import pytest

from support.cases import cases
from support.chart import CHART, EXHAUSTIVE


def test_every_value_may_be_set() -> None:
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(EXHAUSTIVE)


@cases(
    "values message",
    {
        "typo": ({"oprator": {}}, "'oprator' not allowed"),
        "typo-inside": ({"operator": {"replica": 2}}, "'replica' not allowed"),
        "too-few": ({"operator": {"replicas": 0}}, "minimum: got 0, want 1"),
        "too-many": ({"operator": {"replicas": 6}}, "maximum: got 6, want 5"),
        "type": ({"operator": {"replicas": "2"}}, "got string, want integer"),
        "enum": ({"operator": {"logLevel": "loud"}}, "value must be one of"),
        "no-image": ({"operator": {"image": ""}}, "minLength"),
        "no-tag": ({"operator": {"image": "operator"}}, "does not match pattern"),
        "space": ({"runtime": {"image": "a b:c"}}, "does not match pattern"),
        "quantity": (
            {"operator": {"resources": {"limits": {"memory": "1GB"}}}},
            "does not match pattern",
        ),
        "proxy": ({"network": {"proxy": {"https": "proxy:3128"}}}, "does not match pattern"),
        "proxy-with-credentials": (
            {"network": {"proxy": {"http": "http://user:word@proxy:1"}}},
            "does not match pattern",
        ),
        "mirror-with-credentials": (
            {"network": {"hubEndpoint": "https://user:word@hub"}},
            "does not match pattern",
        ),
        "pull-secret": ({"runtime": {"imagePullSecrets": ["A"]}}, "does not match pattern"),
        "namespace": ({"watchNamespaces": ["A"]}, "does not match pattern"),
        "twice": ({"watchNamespaces": ["a", "a"]}, "items at 0 and 1 are equal"),
        "null": ({"operator": {"image": None}}, "missing property 'image'"),
        "null-group": ({"operator": None}, "missing property 'operator'"),
        "toleration": ({"operator": {"tolerations": [{"keyy": "x"}]}}, "'keyy' not allowed"),
        "affinity": ({"operator": {"affinity": {"bogus": 1}}}, "'bogus' not allowed"),
        "label": ({"operator": {"podLabels": {"a b": "c"}}}, "propertyName 'a b'"),
        "label-of-the-selector": (
            {"operator": {"podLabels": {"app.kubernetes.io/name": "c"}}},
            "propertyName 'app.kubernetes.io/name'",
        ),
        "keda-is-off": (
            {"keda": {"clusterTriggerAuthentication": "x"}},
            "clusterTriggerAuthentication': value must be ''",
        ),
        "no-names": (
            {"inferencePools": [{"namespace": "a"}]},
            "missing propert",
        ),
        "port": ({"service": {"port": 0}}, "minimum: got 0, want 1"),
    },
)
def test_wrong_value_is_refused(values: dict[str, Any], message: str) -> None:
    with helm.Chart.load(CHART) as chart, pytest.raises(helm.HelmValuesError, match=message):
        chart.validate_schema(values)
