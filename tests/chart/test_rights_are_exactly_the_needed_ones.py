"""Each role of the operator is bound where its rights are needed, and holds nothing beside them.

The rules themselves are generated from `tools/permissions.py`.
"""

from typing import Any

from support.cases import cases
from support.chart import EXHAUSTIVE, NAMESPACE, of_kind, rendered

KEDA = {"scaledobjects"}
CLUSTER_WIDE = {"clusterroles", "nodes", "persistentvolumes"}


def _resources(role: dict[str, Any]) -> set[str]:
    return {resource for rule in role["rules"] for resource in rule["resources"]}


def _own_names(role: dict[str, Any]) -> list[list[str]]:
    own = {"roles", "clusterroles"}
    return [rule["resourceNames"] for rule in role["rules"] if own & set(rule["resources"])]


def _bound(kind: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
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


def test_one_cluster_role_serves_every_namespace() -> None:
    """Without `watchNamespaces`: models and what is cluster-wide; KEDA where it was requested."""
    (role,) = _bound("ClusterRole")
    (with_keda,) = _bound("ClusterRole", {"keda": {"enabled": True}})

    assert {"multimodalmodels", "jobs"} | CLUSTER_WIDE <= _resources(role)
    assert _resources(with_keda) - _resources(role) == KEDA
    assert _own_names(role) == [[role["metadata"]["name"]]]


def test_its_own_namespace_gives_leases_alone() -> None:
    """Each shared engine has a Lease of its own; the operator reads them by name, no list."""
    (role,) = _bound("Role")

    assert role["metadata"]["namespace"] == NAMESPACE
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["leases"], ["create", "delete", "get", "update"])
    ]


def test_watched_namespaces_get_a_role_each() -> None:
    values = EXHAUSTIVE | {
        "watchNodes": False,
        "definition": {"upgrade": "Auto"},
    }
    roles = {role["metadata"]["namespace"]: role for role in _bound("Role", values)}

    assert _bound("ClusterRole", values) == []
    assert set(roles) == {NAMESPACE, "team-a", "team-b"}
    assert _resources(roles[NAMESPACE]) == {"leases"}
    for role in (roles["team-a"], roles["team-b"]):
        assert {"multimodalmodels", "jobs"} | KEDA <= _resources(role)
        assert _resources(role).isdisjoint(CLUSTER_WIDE)
        assert _own_names(role) == [[role["metadata"]["name"]]]


@cases("values", {"every-namespace": {}, "some": EXHAUSTIVE})
def test_no_secret_is_read(values: dict[str, Any]) -> None:
    every = _bound("Role", values) + _bound("ClusterRole", values)

    assert [one for one in every if "secrets" in _resources(one)] == []


def test_nodes_are_read_where_the_chart_says_so() -> None:
    """With single namespaces, `watchNodes` adds the flag and a ClusterRole for nodes alone."""
    values = {"watchNamespaces": ["team-a"], "watchNodes": True}
    (role,) = _bound("ClusterRole", values)
    (deployment,) = of_kind("Deployment", values)

    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    ]
    assert "--watch-nodes" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


@cases(
    "values verbs",
    {
        "every-namespace": ({}, ["get", "update"]),
        "reported-only": ({"definition": {"upgrade": "Never"}}, ["get"]),
        "single-namespaces": ({"watchNamespaces": ["team-a"]}, []),
        "single-namespaces-that-upgrade": (
            {"watchNamespaces": ["team-a"], "definition": {"upgrade": "Always"}},
            ["get", "update"],
        ),
    },
)
def test_the_definition_is_the_only_one(values: dict[str, Any], verbs: list[str]) -> None:
    """Rights on definitions are for the one of models, and never to create or delete."""
    rules = [
        rule
        for role in _bound("ClusterRole", values)
        for rule in role["rules"]
        if "customresourcedefinitions" in rule["resources"]
    ]
    assert [rule["verbs"] for rule in rules] == ([verbs] if verbs else [])
    assert all(
        rule["resourceNames"] == ["multimodalmodels.serving.multimodal.dev"] for rule in rules
    )


def test_no_role_has_a_wildcard() -> None:
    roles = [item for item in rendered() if item["kind"] in {"Role", "ClusterRole"}]

    assert [role["metadata"]["name"] for role in roles if "*" in str(role["rules"])] == []


def test_bindings_name_the_account_of_the_pods() -> None:
    (deployment,) = of_kind("Deployment")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = of_kind("RoleBinding") + of_kind("ClusterRoleBinding")

    assert {
        (subject["kind"], subject["namespace"], subject["name"])
        for binding in bindings
        for subject in binding["subjects"]
    } == {("ServiceAccount", NAMESPACE, account)}
