"""Helm refuses values that are misspelt, of a wrong type or out of bounds."""

from typing import Any

import helm_python as helm

from support.chart import CHART, EXHAUSTIVE, refusal
from support.golden import Golden


def test_every_value_may_be_set() -> None:
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(EXHAUSTIVE)


WRONG: dict[str, dict[str, Any]] = {
    "typo": {"oprator": {}},
    "typo-inside": {"operator": {"replica": 2}},
    "too-few": {"operator": {"replicas": 0}},
    "too-many": {"operator": {"replicas": 6}},
    "type": {"operator": {"replicas": "2"}},
    "enum": {"operator": {"logLevel": "loud"}},
    "no-image": {"operator": {"image": ""}},
    "no-tag": {"operator": {"image": "operator"}},
    "space": {"runtime": {"image": "a b:c"}},
    "quantity": {"operator": {"resources": {"limits": {"memory": "1GB"}}}},
    "proxy": {"network": {"proxy": {"https": "proxy:3128"}}},
    "proxy-with-credentials": {"network": {"proxy": {"http": "http://user:word@proxy:1"}}},
    "mirror-with-credentials": {"network": {"hubEndpoint": "https://user:word@hub"}},
    "pull-secret": {"runtime": {"imagePullSecrets": ["A"]}},
    "namespace": {"watchNamespaces": ["A"]},
    "twice": {"watchNamespaces": ["a", "a"]},
    "null": {"operator": {"image": None}},
    "null-group": {"operator": None},
    "toleration": {"operator": {"tolerations": [{"keyy": "x"}]}},
    "affinity": {"operator": {"affinity": {"bogus": 1}}},
    "label": {"operator": {"podLabels": {"a b": "c"}}},
    "label-of-the-selector": {"operator": {"podLabels": {"app.kubernetes.io/name": "c"}}},
    "keda-is-off": {"keda": {"clusterTriggerAuthentication": "x"}},
    "no-names": {"inferencePools": [{"namespace": "a"}]},
    "port": {"service": {"port": 0}},
}


def test_wrong_value_is_refused(golden: Golden) -> None:
    found = {name: refusal(values) for name, values in WRONG.items()}
    golden.check_yaml("wrong-values.yaml", found)
