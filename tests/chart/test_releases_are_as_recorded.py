"""Every object of a release as YAML, word for word: what Helm applies is what was read.

Of dashboards and rules, which have files and checks of their own, the names are recorded.
"""

from typing import Any

import yaml

from support.cases import cases
from support.chart import EXHAUSTIVE, rendered
from support.golden import Golden

LEAST: dict[str, Any] = {
    "operator": {"replicas": 1},
    "router": {"enabled": True, "replicas": 1},
    "rbac": {"create": False, "aggregateToUsers": False},
    "serviceAccount": {"create": False, "name": "mine"},
    "service": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "admissionPolicy": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "observability": {"dashboards": {"enabled": False}},
}
"""What a platform brings itself is left out."""
WATCHED: dict[str, Any] = {
    "watchNamespaces": ["team-a"],
    "watchNodes": True,
    "observability": {
        "scrapeAnnotations": False,
        "rules": {"enabled": True},
        "podMonitor": {"enabled": True},
    },
}
EVERY_VALUE = {**EXHAUSTIVE, "router": {**EXHAUSTIVE["router"], "enabled": True}}


def _shortened(item: dict[str, Any]) -> dict[str, Any]:
    if item["kind"] == "ConfigMap":
        return item | {
            "data": {
                name: "..." if name.endswith(".json") and len(text) > 1000 else text
                for name, text in item["data"].items()
            }
        }
    return item | {"spec": "..."} if item["kind"] == "PrometheusRule" else item


@cases(
    "name values",
    {
        "defaults": ("defaults", {}),
        "every-value": ("every-value", EVERY_VALUE),
        "router": ("router", {"router": {"enabled": True}, "definition": {"upgrade": "Never"}}),
        "least": ("least", LEAST),
        "one-namespace": ("one-namespace", WATCHED),
    },
)
def test_objects(name: str, values: dict[str, Any], golden: Golden) -> None:
    made = [_shortened(item) for item in rendered(values)]
    golden.check(f"{name}.yaml", yaml.safe_dump_all(made, sort_keys=True, width=100))


@cases("values", {"every-namespace": {}, "every-value": EVERY_VALUE})
def test_no_role_reads_secrets_or_has_a_wildcard(values: dict[str, Any]) -> None:
    roles = [item for item in rendered(values) if item["kind"] in {"Role", "ClusterRole"}]
    found = [item["metadata"]["name"] for item in roles if {"*", "secrets"} & _words(item["rules"])]

    assert (len(roles) > 1, found) == (True, [])


def _words(rules: list[dict[str, list[str]]]) -> set[str]:
    return {word for rule in rules for named in rule.values() for word in named}
