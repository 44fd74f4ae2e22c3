"""The resource definition on a real API server."""

from mm_api.v1alpha1.definition import NAME
from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.eventually import eventually
from support.scripts import ROOT


def install_definition(cluster: ClusterInfo) -> None:
    """Apply the committed definition and wait until models can be created.

    Each time: a test of the demo's end removes it from the cluster that tests share.
    """
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    # kubectl wait fails on a definition that has no conditions yet, instead of waiting for them.
    path = "jsonpath={.status.conditions[?(@.type=='Established')].status}"
    eventually(lambda: kubectl(cluster, "get", "crd", NAME, "-o", path) == "True")
