"""Helm refuses values that are misspelt, of a wrong type or out of bounds."""

from typing import Any

import helm_python as helm
import pytest

from support.chart import CHART, EXHAUSTIVE


def test_every_value_may_be_set() -> None:
    """The exhaustive values pass the schema."""
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(EXHAUSTIVE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"oprator": {}}, "'oprator' not allowed", id="typo"),
        pytest.param({"operator": {"replica": 2}}, "'replica' not allowed", id="typo-inside"),
        pytest.param({"operator": {"replicas": 0}}, "minimum: got 0, want 1", id="too-few"),
        pytest.param({"operator": {"replicas": 6}}, "maximum: got 6, want 5", id="too-many"),
        pytest.param({"operator": {"replicas": "2"}}, "got string, want integer", id="type"),
        pytest.param({"operator": {"logLevel": "loud"}}, "value must be one of", id="enum"),
        pytest.param({"operator": {"image": ""}}, "minLength", id="no-image"),
        pytest.param({"operator": {"image": "operator"}}, "does not match pattern", id="no-tag"),
        pytest.param({"runtime": {"image": "a b:c"}}, "does not match pattern", id="space"),
        pytest.param(
            {"operator": {"resources": {"limits": {"memory": "1GB"}}}},
            "does not match pattern",
            id="quantity",
        ),
        pytest.param(
            {"network": {"proxy": {"https": "proxy:3128"}}}, "does not match pattern", id="proxy"
        ),
        pytest.param(
            {"network": {"proxy": {"http": "http://user:word@proxy:1"}}},
            "does not match pattern",
            id="proxy-with-credentials",
        ),
        pytest.param(
            {"network": {"hubEndpoint": "https://user:word@hub"}},
            "does not match pattern",
            id="mirror-with-credentials",
        ),
        pytest.param(
            {"runtime": {"imagePullSecrets": ["A"]}}, "does not match pattern", id="pull-secret"
        ),
        pytest.param({"watchNamespaces": ["A"]}, "does not match pattern", id="namespace"),
        pytest.param(
            {"operator": {"sharedStores": [["a"]]}}, "minItems: got 1, want 2", id="alone"
        ),
        pytest.param({"watchNamespaces": ["a", "a"]}, "items at 0 and 1 are equal", id="twice"),
        pytest.param({"operator": {"image": None}}, "missing property 'image'", id="null"),
        pytest.param({"operator": None}, "missing property 'operator'", id="null-group"),
        pytest.param(
            {"operator": {"tolerations": [{"keyy": "x"}]}}, "'keyy' not allowed", id="toleration"
        ),
        pytest.param(
            {"operator": {"affinity": {"bogus": 1}}}, "'bogus' not allowed", id="affinity"
        ),
        pytest.param({"operator": {"podLabels": {"a b": "c"}}}, "propertyName 'a b'", id="label"),
        pytest.param(
            {"operator": {"podLabels": {"app.kubernetes.io/name": "c"}}},
            "propertyName 'app.kubernetes.io/name'",
            id="label-of-the-selector",
        ),
        pytest.param(
            {"keda": {"clusterTriggerAuthentication": "x"}},
            "clusterTriggerAuthentication': value must be ''",
            id="keda-is-off",
        ),
        pytest.param(
            {"autoscaling": {"modelSecrets": [{"namespace": "a"}]}},
            "missing property 'names'",
            id="no-names",
        ),
        pytest.param({"service": {"port": 0}}, "minimum: got 0, want 1", id="port"),
    ],
)
def test_wrong_value_is_refused(values: dict[str, Any], message: str) -> None:
    """The error names the value and what was expected."""
    with (
        helm.Chart.load(CHART) as chart,
        pytest.raises(helm.HelmValuesError, match=message),
    ):
        chart.validate_schema(values)
