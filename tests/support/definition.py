"""The resource definition on a real API server."""

from mm_api.v1alpha1.definition import NAME
from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.scripts import ROOT


def install_definition(cluster: ClusterInfo) -> None:
    """Apply the committed definition and wait until models can be created."""
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    kubectl(cluster, "wait", "--for=condition=Established", f"crd/{NAME}", "--timeout=30s")
