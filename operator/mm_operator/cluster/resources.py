"""Which kinds the operator touches, where the API server keeps them, and in which order to apply.

The paths are written down and not discovered: discovery costs reads at every start, and RBAC names
the same plurals anyway.
"""

from dataclasses import dataclass
from urllib.parse import quote

from mm_api import labels


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of namespaced object.

    `rank` orders applies: what others refer to comes first. A Job that starts before its ConfigMap
    exists waits a minute in the kubelet's back-off. What nothing refers to comes last.
    """

    api_version: str
    kind: str
    plural: str
    rank: int = 0

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection or object; without a namespace, of all of them."""
        root = "api" if "/" not in self.api_version else "apis"
        parts = [root, self.api_version]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    @property
    def group(self) -> str:
        """Return the API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


MODEL = Resource(labels.API_VERSION, labels.KIND, labels.PLURAL)
CLAIM = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", 0)
CONFIG = Resource("v1", "ConfigMap", "configmaps", 1)
NETWORK_POLICY = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", 2)
CLAIM_TEMPLATE = Resource(
    "resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", 2
)
"""What pods claim devices by. Kubernetes knows it since 1.34."""
SERVICE = Resource("v1", "Service", "services", 2)
JOB = Resource("batch/v1", "Job", "jobs", 3)
DEPLOYMENT = Resource("apps/v1", "Deployment", "deployments", 4)
BUDGET = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", 5)
"""After the Deployment: it selects pods by label, and replicas need not wait for it."""
POD = Resource("v1", "Pod", "pods")
EVENT = Resource("v1", "Event", "events")
"""The core kind and not that of events.k8s.io: kubectl describe sorts by a time which only this one
may set."""
NODE = Resource("v1", "Node", "nodes")
"""Scoped to the cluster, not of a namespace; only metadata is watched."""
AUTOSCALER = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
"""Autoscalers of others, which may move the replicas of a model."""
SCALED_OBJECT = Resource("keda.sh/v1alpha1", "ScaledObject", "scaledobjects", 7)
GROUP = Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets", 4)
ENDPOINT_SLICE = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
SECRET = Resource("v1", "Secret", "secrets")
ROLE = Resource("rbac.authorization.k8s.io/v1", "Role", "roles")
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles")
DEFINITION = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"
)
LEASE = Resource("coordination.k8s.io/v1", "Lease", "leases")

CHILDREN: tuple[Resource, ...] = (
    CLAIM,
    CONFIG,
    NETWORK_POLICY,
    SERVICE,
    JOB,
    DEPLOYMENT,
    BUDGET,
)
"""Kinds the operator applies and prunes."""

KEDA_CHILDREN: tuple[Resource, ...] = (SCALED_OBJECT,)
"""The same, where the operator is configured for KEDA."""

GROUP_CHILDREN: tuple[Resource, ...] = (GROUP,)
"""The same, where it is configured for LeaderWorkerSets."""

DEVICE_CHILDREN: tuple[Resource, ...] = (CLAIM_TEMPLATE,)
"""The same, where the API server knows them."""

WATCHED: tuple[Resource, ...] = (*CHILDREN, POD)
"""Kinds whose labelled objects are cached; the custom resource itself comes through kopf."""

BY_KIND: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        *WATCHED,
        *KEDA_CHILDREN,
        *GROUP_CHILDREN,
        *DEVICE_CHILDREN,
        MODEL,
        EVENT,
        LEASE,
    )
}
