"""Triton's HTTP has one family of addresses: that of the pod's primary address; gRPC has both."""

import os
import socket
from pathlib import Path

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.base.child_process import ChildProcess
from mm_runtime.launch import health
from mm_runtime.launch.arguments import ServerOptions, server_argv, server_environment
from mm_runtime.launch.backends import find_installation
from mm_runtime.launch.health import State
from mm_runtime.launch.pod_address import one_family
from mm_runtime.settings import Ports
from support.cases import cases
from support.eventually import eventually
from support.ports import free_ports

POOLS = MemoryPools(cuda_bytes=0, pinned_bytes=1 << 20, shm_bytes=1 << 20)
V4, V6 = "0.0.0.0", "::"  # noqa: S104
KUBELETS = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
"""


@cases(
    "address hosts expected",
    {
        "ipv4": (V4, f"{KUBELETS}10.0.0.7\tllava-1\n", V4),
        "ipv6": (V4, f"{KUBELETS}fd00::7\tllava-1\n", V6),
        "ipv6-first": (V4, f"{KUBELETS}fd00::7\tllava-1\n10.0.0.7\tllava-1\n", V6),
        "ipv4-first": (V4, f"{KUBELETS}10.0.0.7\tllava-1\nfd00::7\tllava-1\n", V4),
        "subdomain": (V4, f"{KUBELETS}fd00::7\tllava-1.pods.svc\tllava-1\n", V6),
        "everywhere-of-ipv6": (V6, f"{KUBELETS}10.0.0.7\tllava-1\n", V4),
        "another-host": (V4, "fd00::7 other llava-12 # llava-1\n", V4),
        "loopback-alone": (V4, "::1 llava-1\n127.0.1.1 llava-1\n", V4),
        "no-address": (V4, "x llava-1\n\n", V4),
        "one-address": ("127.0.0.1", f"{KUBELETS}fd00::7\tllava-1\n", "127.0.0.1"),
    },
)
def test_everywhere_is_the_primary_family(address: str, hosts: str, expected: str) -> None:
    """As the kubelet writes the file: the primary address comes first."""
    assert one_family(address, hosts, "llava-1") == expected


def options(repository: Path, ports: Ports) -> ServerOptions:
    return ServerOptions(
        repository=repository,
        backends=repository / "backends",
        ports=ports,
        pools=POOLS,
        exit_seconds=1,
        secret="closed",
    )


def opened(port: int) -> set[str]:
    found = set()
    for address in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((address, port), timeout=10).close()
        except OSError:
            continue
        found.add(address)
    return found


@pytest.mark.triton
@cases("address http", {"ipv4": (V4, {"127.0.0.1"}), "ipv6": (V6, {"::1"})})
def test_a_real_server_answers(tmp_path: Path, address: str, http: set[str]) -> None:
    """Its supervisor reaches it, too; encoders' gRPC is open on both families."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    installation = find_installation()
    ports = Ports(address, *free_ports(3), grpc_address=V4)
    argv = server_argv(installation, options(tmp_path, ports))
    server = ChildProcess(argv, server_environment(installation, os.environ), lambda _line: None)
    try:
        eventually(lambda: health.probe(ports) is State.READY, seconds=60)
        assert (opened(ports.http), opened(ports.grpc)) == (http, {"127.0.0.1", "::1"})
    finally:
        server.stop(10)
