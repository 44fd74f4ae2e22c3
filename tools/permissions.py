"""Every verb of operator and router, and why; `tools/generate_templates.py` writes the rules.

No wildcard anywhere, and no Secret. Where every namespace
is served, a ValidatingAdmissionPolicy of the chart narrows the writes to namespaces that opted in.
Verbs on children are for the namespaces of models, those on Leases for the operator's own
namespace, but for the Leases that namespaces belong to an installation by.
"""

from dataclasses import dataclass

from mm_api import labels
from mm_operator.cluster.namespaces import LEASE_NAME


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One rule: API group (empty: core), resource with subresource, verbs, reason, names.

    Without names the verbs are for every object of the resource.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()


DEFINITION_NAME = f"{labels.PLURAL}.{labels.GROUP}"

ITSELF = "(the role itself)"
"""Stands for the name of the role that holds the rule."""

_CHILD = ("create", "delete", "get", "list", "patch", "watch")
"""Server-side apply of a new object needs create and patch; the caches need list and watch."""

MODEL_NAMESPACES: tuple[Permission, ...] = (
    Permission(
        "serving.multimodal.dev",
        "multimodalmodels",
        ("get", "list", "watch"),
        "What is wanted. Of the object itself only the number of replicas is ever written.",
    ),
    Permission(
        "serving.multimodal.dev",
        "multimodalmodels/scale",
        ("patch",),
        "The number of replicas, where autoscaling changes it.",
    ),
    Permission("serving.multimodal.dev", "multimodalmodels/status", ("patch",), "The status."),
    Permission("", "configmaps", _CHILD, "Facts, build plans, serving plans."),
    Permission("", "persistentvolumeclaims", _CHILD, "The store, unless the user brings one."),
    Permission("", "services", _CHILD, "The address of a model."),
    Permission(
        "networking.k8s.io",
        "networkpolicies",
        _CHILD,
        "Who reaches the encoders of a model, and Triton where a model publishes it.",
    ),
    Permission("apps", "deployments", _CHILD, "The serving pods."),
    Permission("batch", "jobs", _CHILD, "Inspection and build."),
    Permission(
        "resource.k8s.io",
        "resourceclaimtemplates",
        _CHILD,
        "What pods and builds claim GPUs by, where a model names a DeviceClass.",
    ),
    Permission("policy", "poddisruptionbudgets", _CHILD, "Drains leave a replica running."),
    Permission(
        "autoscaling",
        "horizontalpodautoscalers",
        ("list",),
        "Whether another autoscaler moves a model's replicas.",
    ),
    Permission(
        "",
        "pods",
        ("delete", "get", "list", "watch"),
        "Why a Job or a replica does not run; one that refused an engine goes once it is repaired.",
    ),
    Permission("", "pods/log", ("get",), "Last lines of a step that left no message."),
    Permission(
        "",
        "events",
        ("create", "list"),
        "Transitions of a model; why a Job has no pods or a pod no volumes (only events say so).",
    ),
    Permission(
        "coordination.k8s.io",
        "leases",
        ("get", "list", "update", "watch"),
        "Which installation serves the namespace.",
        (LEASE_NAME,),
    ),
    Permission(
        "coordination.k8s.io",
        "leases",
        ("create",),
        "The first of them; a rule with a name lets nothing be created.",
    ),
)

ROUTER: tuple[Permission, ...] = (
    Permission(
        "serving.multimodal.dev", "multimodalmodels", ("list", "watch"), "Names of the models."
    ),
    Permission(
        "discovery.k8s.io", "endpointslices", ("list", "watch"), "Addresses of ready replicas."
    ),
)
"""Rights of the router's account, in the namespaces of the models; the operator has them in
its own at most."""

SINGLE_NAMESPACE: tuple[Permission, ...] = (
    Permission(
        "rbac.authorization.k8s.io",
        "roles",
        ("get",),
        "Its own uid: the Role owns the Lease of the namespace, which goes with it.",
        (ITSELF,),
    ),
)
"""Beside `MODEL_NAMESPACES`, where single namespaces are served."""

DEFINITION_READ: tuple[Permission, ...] = (
    Permission(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        ("get",),
        "Whether the resource definition is older than the operator.",
        (DEFINITION_NAME,),
    ),
)
"""Where every namespace is served and the chart value definition.upgrade is Never."""

DEFINITION: tuple[Permission, ...] = (
    Permission(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        ("get", "update"),
        "The resource definition of models is replaced by the operator's own when it is older.",
        (DEFINITION_NAME,),
    ),
)
"""Where the chart value definition.upgrade says so; also alone, in releases of some namespaces."""

KEDA: tuple[Permission, ...] = (Permission("keda.sh", "scaledobjects", _CHILD, "Engine KEDA."),)
"""Beside `MODEL_NAMESPACES`, where KEDA is in the cluster."""

GROUPS: tuple[Permission, ...] = (
    Permission(
        "leaderworkerset.x-k8s.io", "leaderworkersets", _CHILD, "Replicas of several nodes."
    ),
)
"""The same, where LeaderWorkerSet is in the cluster."""

OWN_NAMESPACE: tuple[Permission, ...] = (
    Permission(
        "coordination.k8s.io",
        "leases",
        ("create", "get", "update"),
        "Which replica leads.",
    ),
)

ROUTER_ADDRESSES: tuple[Permission, ...] = (
    Permission(
        "discovery.k8s.io",
        "endpointslices",
        ("list", "watch"),
        "Addresses of the routers, which hold requests of models without a replica.",
    ),
)
"""Beside `OWN_NAMESPACE`, where the chart's router is on."""

NODES: tuple[Permission, ...] = (
    Permission(
        "",
        "nodes",
        ("list", "watch"),
        "Which GPUs there are, from labels.",
    ),
)
"""Also alone, where single namespaces are served and the chart value watchNodes is set."""

CLUSTER: tuple[Permission, ...] = (
    *NODES,
    Permission(
        "coordination.k8s.io",
        "leases",
        ("get",),
        "Whether an installation that serves a namespace still runs: its leader Lease.",
    ),
    Permission(
        "rbac.authorization.k8s.io",
        "clusterroles",
        ("get",),
        "Its own uid: the ClusterRole owns the Leases of served namespaces, which go with it.",
        (ITSELF,),
    ),
)
"""Only where every namespace is served: an operator of single namespaces takes the GPU from `spec`,
and shares engines within namespaces only.
kopf's scanning of namespaces and CRDs is switched off."""
