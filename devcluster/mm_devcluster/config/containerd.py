"""Configuration of containerd and of the pods' network (CNI)."""

import json
from pathlib import Path

from mm_devcluster.addresses import Network
from mm_devcluster.layout import Layout

CNI_PLUGINS = "/usr/lib/cni"  # where Debian's containernetworking-plugins puts them
PAUSE_IMAGE = "mm.local/pause:1"


def containerd_config(layout: Layout, store: Path, container: Path | None = None) -> str:
    """Return containerd's config.toml.

    Args:
        layout: Where socket and CNI configuration lie.
        store: The leased image store: containerd's root, which outlives the cluster.
        container: File of the OCI specification that every container starts from, if not
            containerd's own.
    """
    base = f"\n    base_runtime_spec = {_quoted(container)}" if container else ""
    return f"""\
{_basics(store, layout.containerd_socket, layout.root, ())}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # CAP_SYS_RESOURCE may be missing (containers, small virtual machines): without it a process
  # cannot lower its OOM score, and every pod would fail to start.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {_quoted(layout.registries)}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = {_quoted(layout.config / "cni")}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"{base}
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def cleaning_config(layout: Layout, store: Path) -> str:
    """Return the config.toml of the containerd that removes a stopped cluster's containers."""
    return _basics(store, layout.cleaning_socket, layout.root, ("io.containerd.grpc.v1.cri",))


def _basics(store: Path, socket: Path, private: Path, disabled: tuple[str, ...]) -> str:
    more = "".join(f"\n  {json.dumps(plugin)}," for plugin in disabled)
    return f"""\
version = 2
root = {_quoted(store)}
state = "/run/containerd"
disabled_plugins = [{more}
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = {_quoted(socket)}

[plugins."io.containerd.internal.v1.opt"]
  path = {_quoted(private / "opt")}
"""


def cni_config(network: Network) -> str:
    """Return the CNI configuration list: one bridge, addresses from the node's range, hostPorts."""
    document = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "ipMasq": False,
                # So that a pod reaches itself through its own Service.
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(network.node_pods)}]],
                    "routes": [{"dst": network.everything}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _quoted(path: Path) -> str:
    return json.dumps(str(path))
