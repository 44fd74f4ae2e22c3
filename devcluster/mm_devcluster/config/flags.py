"""Argument lists of the control plane's programs."""

from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.addresses import Ports, Range
from mm_devcluster.layout import Layout

# The defaults (20 requests a second) would make 1,000 Jobs and their pods wait for the
# controller-manager instead of for the operator under test.
CLIENT_RATE = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True)
class ControlPlane:
    """What the control plane's arguments depend on."""

    layout: Layout
    ports: Ports
    advertise: str
    """Address that becomes the endpoint of the ``kubernetes`` Service; must not be loopback."""
    services: Range
    pods: Range | None
    """Range that nodes get their pod addresses from; None without a node."""
    binaries: dict[str, Path]

    @property
    def has_node(self) -> bool:
        """Whether a node, with a network of its own, belongs to the cluster."""
        return self.pods is not None


def etcd_arguments(plane: ControlPlane) -> list[str]:
    """Return etcd's argument list. No fsync: the data lives no longer than the cluster."""
    client = f"http://127.0.0.1:{plane.ports.etcd}"
    peer = f"http://127.0.0.1:{plane.ports.etcd_peer}"
    return [
        str(plane.binaries["etcd"]),
        f"--data-dir={plane.layout.etcd}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def apiserver_arguments(plane: ControlPlane) -> list[str]:
    """Return kube-apiserver's argument list.

    Pod Security admission and ValidatingAdmissionPolicy are on by default.
    """
    layout = plane.layout
    # Without a node the server stays on loopback, and no endpoint is published for it: nothing
    # could reach it through the Service, and a loopback endpoint would be refused.
    loopback = ["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"]
    # The default is every address of IPv4; this is every one of both families.
    everywhere = ["--bind-address=::"] if ":" in plane.advertise else []
    return [
        str(plane.binaries["kube-apiserver"]),
        f"--etcd-servers=http://127.0.0.1:{plane.ports.etcd}",
        f"--advertise-address={plane.advertise}",
        f"--secure-port={plane.ports.apiserver}",
        *(everywhere if plane.has_node else loopback),
        f"--service-cluster-ip-range={plane.services}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--tls-cert-file={layout.certificate('apiserver')}",
        f"--tls-private-key-file={layout.key('apiserver')}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={layout.pki / 'sa.pub'}",
        f"--service-account-signing-key-file={layout.pki / 'sa.key'}",
        f"--kubelet-client-certificate={layout.certificate('apiserver-kubelet')}",
        f"--kubelet-client-key={layout.key('apiserver-kubelet')}",
        f"--kubelet-certificate-authority={layout.certificate('ca')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={layout.certificate('front-proxy-ca')}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={layout.certificate('front-proxy-client')}",
        f"--proxy-client-key-file={layout.key('front-proxy-client')}",
    ]


def controller_manager_arguments(plane: ControlPlane) -> list[str]:
    """Return kube-controller-manager's argument list."""
    layout = plane.layout
    nodes = (
        [
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={plane.pods}",
            f"--service-cluster-ip-range={plane.services}",
            # Volumes for claims of the class `standard`, made as directories of the node: see
            # docs/design/devcluster.md for what this provisioner can do and what it cannot.
            "--enable-hostpath-provisioner=true",
        ]
        if plane.has_node
        else []
    )
    return [
        str(plane.binaries["kube-controller-manager"]),
        *_kubeconfigs(layout, "controller-manager"),
        *_single(plane.ports.controller_manager),
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--root-ca-file={layout.certificate('ca')}",
        "--use-service-account-credentials=true",
        f"--cluster-signing-cert-file={layout.certificate('ca')}",
        f"--cluster-signing-key-file={layout.key('ca')}",
        *nodes,
        *CLIENT_RATE,
    ]


def scheduler_arguments(plane: ControlPlane) -> list[str]:
    """Return kube-scheduler's argument list."""
    return [
        str(plane.binaries["kube-scheduler"]),
        *_kubeconfigs(plane.layout, "scheduler"),
        *_single(plane.ports.scheduler),
        *CLIENT_RATE,
    ]


def _kubeconfigs(layout: Layout, name: str) -> list[str]:
    path = layout.part_kubeconfig(name)
    return [
        f"--kubeconfig={path}",
        f"--authentication-kubeconfig={path}",
        f"--authorization-kubeconfig={path}",
    ]


def _single(port: int) -> list[str]:
    # One replica of each: an election would only add seconds to every start.
    return ["--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}"]
