"""Turn the supervisor's new namespaces into a node: mounts, network, kernel settings.

Runs as PID 1 of its own mount, network and PID namespaces, so nothing here reaches the machine
and nothing has to be undone: it all ends with the process.
"""

import subprocess
import time
from pathlib import Path

from mm_devcluster.supervisor.spec import NodeSetup

LINK_TIMEOUT = 30.0  # seconds until the starting process must have moved the interface in

SETTINGS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/route_localnet": "1",  # NodePorts on 127.0.0.1
    "net/bridge/bridge-nf-call-iptables": "1",  # ClusterIPs between pods of one bridge
}
SETTINGS_IPV6 = {
    "net/ipv6/conf/all/forwarding": "1",
    "net/bridge/bridge-nf-call-ip6tables": "1",
    # No address is looked for twice: it could be used only a second later.
    "net/ipv6/conf/all/accept_dad": "0",
    "net/ipv6/conf/default/accept_dad": "0",
}
VARIANTS = ("nft", "legacy")  # Debian's order of preference
TOOLS = ("iptables", "iptables-save", "iptables-restore")


def set_up(node: NodeSetup) -> None:
    """Prepare the node.

    Raises:
        subprocess.CalledProcessError: A mount or address was refused; its output is in the log.
        TimeoutError: The interface was not moved in.
    """
    _run("mount", "--make-rshared", "/")
    for target, source in node.binds.items():
        _run("mount", "--bind", source, target)
    # Shim sockets, network namespaces' files and the xtables lock, all private to the node.
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    # cAdvisor, inside the kubelet, knows containerd's socket under its usual name only.
    usual = Path("/run/containerd/containerd.sock")
    usual.parent.mkdir()
    usual.symlink_to(node.containerd_socket)
    _run("ip", "link", "set", "lo", "up")
    _await_interface(node.interface)
    is_ipv6 = ":" in node.gateway
    known = ("nodad",) if is_ipv6 else ()
    _run("ip", "address", "add", node.address, "dev", node.interface, *known)
    _run("ip", "link", "set", node.interface, "up")
    _run("ip", *(("-6",) if is_ipv6 else ()), "route", "add", "default", "via", node.gateway)
    for name, setting in (SETTINGS_IPV6 if is_ipv6 else SETTINGS).items():
        (Path("/proc/sys") / name).write_text(setting)
    _link_xtables(Path(node.xtables))


def _await_interface(name: str) -> None:
    deadline = time.monotonic() + LINK_TIMEOUT
    while not (Path("/sys/class/net") / name).exists() and not _has_link(name):
        if time.monotonic() > deadline:
            message = f"interface {name} did not appear within {LINK_TIMEOUT:.0f} s"
            raise TimeoutError(message)
        time.sleep(0.02)


def _has_link(name: str) -> bool:
    # /sys still shows the machine's interfaces: it was mounted in the other network namespace.
    shown = subprocess.run(
        ["ip", "link", "show", "dev", name], capture_output=True, timeout=10, check=False
    )
    return shown.returncode == 0


def _link_xtables(directory: Path) -> None:
    """Link the iptables variant that this kernel supports, for kube-proxy, kubelet and CNI."""
    directory.mkdir(exist_ok=True)
    variant = next(
        (name for name in VARIANTS if _works(f"/usr/sbin/iptables-{name}")), VARIANTS[-1]
    )
    for tool in TOOLS:
        for family in ("ip", "ip6"):
            name = tool.replace("ip", family, 1)
            action = name.partition("-")[2]
            program = f"{family}tables-{variant}" + (f"-{action}" if action else "")
            (directory / name).symlink_to(f"/usr/sbin/{program}")


def _works(program: str) -> bool:
    tried = subprocess.run(
        [program, "-t", "nat", "-S"], capture_output=True, timeout=10, check=False
    )
    return tried.returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=30)
