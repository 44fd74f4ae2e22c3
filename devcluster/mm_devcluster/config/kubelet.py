"""Configuration of the node's parts that speak to Kubernetes: kubelet and kube-proxy."""

import json
from typing import Any

from mm_devcluster.addresses import Network
from mm_devcluster.certificates import NODE_NAME
from mm_devcluster.layout import Layout


def kubelet_config(layout: Layout, network: Network, cgroup: str) -> str:
    """Return the kubelet's configuration file.

    Args:
        layout: Where the certificates lie.
        network: For the address of cluster DNS.
        cgroup: Name of the cgroup below which every pod goes, so that clusters do not mix.
    """
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,  # the default refuses machines that still mount cgroup v1
        "cgroupDriver": "cgroupfs",  # no systemd in the node
        "cgroupRoot": f"/{cgroup}",
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "2m"},
            "x509": {"clientCAFile": layout.certificate("ca")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": layout.certificate("kubelet-server"),
        "tlsPrivateKeyFile": layout.key("kubelet-server"),
        "address": network.everywhere,
        "clusterDNS": [str(network.dns_ip)],
        "clusterDomain": "cluster.local",
        # The machine's own resolv.conf names servers that a pod cannot reach.
        "resolvConf": str(layout.config / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        # Of a laptop's disk a tenth is a lot; the default of 10 % evicted pods with 70 GB free.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1Gi",
            "imagefs.available": "1Gi",
            "nodefs.inodesFree": "1%",
        },
        # Never collect images: there is no registry to get them back from.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
    }
    return _json(document)


def kubelet_arguments(layout: Layout, network: Network, program: str) -> list[str]:
    """Return the kubelet's argument list."""
    return [
        program,
        f"--config={layout.config / 'kubelet.json'}",
        f"--kubeconfig={layout.part_kubeconfig('kubelet')}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={network.node_ip}",
    ]


def kube_proxy_config(layout: Layout, network: Network) -> str:
    """Return kube-proxy's configuration file.

    All conntrack settings are zero, which means "do not write": they belong to the entire machine.
    """
    document: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": layout.part_kubeconfig("kube-proxy")},
        "hostnameOverride": NODE_NAME,
        "bindAddress": network.everywhere,
        "clusterCIDR": str(network.pods),
        "mode": "iptables",
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    return _json(document)


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
