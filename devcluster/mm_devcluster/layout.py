"""Where the files of one cluster lie below its private directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths below one cluster's directory; computing them touches nothing."""

    root: Path

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def config(self) -> Path:
        """Generated configuration files and kubeconfigs of the parts."""
        return self.root / "config"

    @property
    def registries(self) -> Path:
        """A folder per registry with its hosts.toml: how containerd reaches it, read at a pull."""
        return self.config / "registries"

    @property
    def logs(self) -> Path:
        """One log file a part."""
        return self.root / "logs"

    @property
    def etcd(self) -> Path:
        """Etcd's data."""
        return self.root / "etcd"

    @property
    def kubelet(self) -> Path:
        """The node's /var/lib/kubelet."""
        return self.root / "kubelet"

    @property
    def volumes(self) -> Path:
        """Directories of dynamic volumes: the node's /tmp/hostpath_pv."""
        return self.root / "volumes"

    @property
    def containerd_socket(self) -> Path:
        """Containerd's socket, reachable from outside the node because it lies on a disk."""
        return self.root / "containerd.sock"

    @property
    def cleaning_socket(self) -> Path:
        """Socket of the short-lived containerd that empties the store of old containers."""
        return self.root / "cleaning.sock"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, for people and tests on this machine."""
        return self.root / "kubeconfig"

    @property
    def device_plugin(self) -> Path:
        """Configuration of NVIDIA's device plugin; without it the plugin ends, and its GPUs go."""
        return self.config / "device-plugin.json"

    @property
    def record(self) -> Path:
        """What the cluster is, as JSON: written once before anything starts."""
        return self.root / "cluster.json"

    @property
    def supervisor_spec(self) -> Path:
        """What the supervisor has to run."""
        return self.root / "supervisor.json"

    @property
    def supervisor_state(self) -> Path:
        """What the supervisor runs now."""
        return self.root / "parts.json"

    def certificate(self, name: str) -> str:
        """Return the path of NAME.crt."""
        return str(self.pki / f"{name}.crt")

    def key(self, name: str) -> str:
        """Return the path of NAME.key."""
        return str(self.pki / f"{name}.key")

    def part_kubeconfig(self, name: str) -> str:
        """Return the path of a part's kubeconfig."""
        return str(self.config / f"{name}.kubeconfig")
