"""The operator's roles hold the verbs of the operator's own table, no more and no wildcard."""

from collections.abc import Iterable
from typing import Any

from mm_operator.cluster.permissions import (
    CLUSTER,
    KEDA,
    MODEL_NAMESPACES,
    OWN_NAMESPACE,
    Permission,
)
from support.chart import EXHAUSTIVE, NAMESPACE, of_kind, rendered

Right = tuple[str, str, str]
"""API group, resource, verb."""


def _needed(table: Iterable[Permission]) -> set[Right]:
    return {(one.group, one.resource, verb) for one in table for verb in one.verbs}


def _given(role: dict[str, Any]) -> set[Right]:
    return {
        (group, resource, verb)
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
    roles = _bound("Role", EXHAUSTIVE)
    models = _needed((*MODEL_NAMESPACES, *KEDA))

    assert _bound("ClusterRole", EXHAUSTIVE) == []
    assert {role["metadata"]["namespace"]: _given(role) for role in roles} == {
        NAMESPACE: _needed(OWN_NAMESPACE),
        "team-a": models,
        "team-b": models,
    }


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
