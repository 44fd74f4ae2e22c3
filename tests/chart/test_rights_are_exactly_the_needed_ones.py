"""The operator's roles hold the verbs of the operator's own table, no more and no wildcard."""

from collections.abc import Iterable
from typing import Any

import pytest

from mm_operator.cluster.permissions import (
    CLUSTER,
    ITSELF,
    KEDA,
    MODEL_NAMESPACES,
    OWN_NAMESPACE,
    SECRETS,
    SINGLE_NAMESPACE,
    Permission,
)
from support.chart import EXHAUSTIVE, NAMESPACE, of_kind, rendered

Right = tuple[str, str, str, tuple[str, ...]]
"""API group, resource, verb, names (none: every object)."""


def _needed(table: Iterable[Permission]) -> set[Right]:
    return {(one.group, one.resource, verb, one.names) for one in table for verb in one.verbs}


def _given(role: dict[str, Any]) -> set[Right]:
    own = role["metadata"]["name"]
    return {
        (
            group,
            resource,
            verb,
            tuple(ITSELF if name == own else name for name in rule.get("resourceNames", ())),
        )
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _bound(kind: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the roles of a kind that the operator's account is bound to."""
    names = {
        (item["metadata"].get("namespace"), item["roleRef"]["name"])
        for item in of_kind(f"{kind}Binding", values)
        if item["subjects"][0]["namespace"] == NAMESPACE
    }
    return [
        item
        for item in of_kind(kind, values)
        if (item["metadata"].get("namespace"), item["metadata"]["name"]) in names
    ]


def test_cluster_role_is_the_table() -> None:
    """For all namespaces: one ClusterRole with what models need."""
    roles = _bound("ClusterRole")

    assert [_given(role) for role in roles] == [_needed((*MODEL_NAMESPACES, *CLUSTER))]


def test_lease_role_is_the_table() -> None:
    """In its own namespace the operator may keep a Lease and nothing else."""
    roles = _bound("Role")

    assert [(role["metadata"]["namespace"], _given(role)) for role in roles] == [
        (NAMESPACE, _needed(OWN_NAMESPACE))
    ]


def test_lease_role_is_for_leases_it_can_name() -> None:
    """Each shared engine has a Lease of its own; the operator asks by name and lists none."""
    (role,) = _bound("Role")
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}

    assert verbs == {"create", "delete", "get", "update"}


def test_watched_namespaces_get_a_role_each() -> None:
    """With namespaces given there is no right outside them and the operator's own."""
    values = EXHAUSTIVE | {"watchNodes": False, "autoscaling": {"modelSecrets": []}}
    roles = _bound("Role", values)
    models = _needed((*MODEL_NAMESPACES, *SINGLE_NAMESPACE, *KEDA))

    assert _bound("ClusterRole", values) == []
    assert {role["metadata"]["namespace"]: _given(role) for role in roles} == {
        NAMESPACE: _needed(OWN_NAMESPACE),
        "team-a": models,
        "team-b": models,
    }


@pytest.mark.parametrize(
    "values", [pytest.param({}, id="every-namespace"), pytest.param(EXHAUSTIVE, id="some")]
)
def test_secrets_are_read_by_name_only(values: dict[str, Any]) -> None:
    """No role gives a right on Secrets but those of the value autoscaling.modelSecrets."""
    listed = [{"namespace": "team-a", "names": ["token", "authority"]}]
    asked = values | {"autoscaling": {"modelSecrets": listed}}
    (role,) = (role for role in _bound("Role", asked) if "secrets" in str(role["rules"]))
    every = _bound("Role", asked) + _bound("ClusterRole", asked)
    (needed,) = SECRETS

    assert [one for one in every if "secrets" in str(one["rules"])] == [role]
    assert role["metadata"]["namespace"] == "team-a"
    assert _given(role) == {("", "secrets", verb, ("token", "authority")) for verb in needed.verbs}


def test_nodes_are_read_where_the_chart_is_asked_to() -> None:
    """With single namespaces, `watchNodes` adds the flag and a ClusterRole for nodes alone."""
    values = {"watchNamespaces": ["team-a"], "watchNodes": True}
    (role,) = _bound("ClusterRole", values)
    (deployment,) = of_kind("Deployment", values)

    assert _given(role) == {("", "nodes", verb, ()) for verb in ("list", "watch")}
    assert "--watch-nodes" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_no_role_has_a_wildcard() -> None:
    """Neither the operator's roles nor those for users say '*'."""
    roles = [item for item in rendered() if item["kind"] in {"Role", "ClusterRole"}]

    assert [role["metadata"]["name"] for role in roles if "*" in str(role["rules"])] == []


def test_bindings_name_the_account_of_the_pods() -> None:
    """Every binding gives its rights to the account that the pods run as."""
    (deployment,) = of_kind("Deployment")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = of_kind("RoleBinding") + of_kind("ClusterRoleBinding")

    assert {
        (subject["kind"], subject["namespace"], subject["name"])
        for binding in bindings
        for subject in binding["subjects"]
    } == {("ServiceAccount", NAMESPACE, account)}
