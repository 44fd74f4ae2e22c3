"""The parts' configuration holds the settings without which the cluster would not work."""

import json
from pathlib import Path

import pytest

from mm_devcluster.addresses import Family, network_of, ports_of
from mm_devcluster.binaries import CONTROL_PLANE, NODE
from mm_devcluster.blueprint import Blueprint, build_control_plane, build_full_cluster
from mm_devcluster.certificates import plan_certificates
from mm_devcluster.layout import Layout
from mm_devcluster.supervisor.spec import SupervisorSpec

LAYOUT = Layout(Path("/state/clusters/c"))
BINARIES = {name: Path("/bin") / name for name in (*NODE, *CONTROL_PLANE)}


@pytest.fixture(name="node")
def full_cluster() -> Blueprint:
    return build_full_cluster(LAYOUT, network_of(3), BINARIES, store=Path("/cache/0"), cgroup="c")


@pytest.fixture(name="plane")
def loopback_control_plane() -> Blueprint:
    return build_control_plane(LAYOUT, network_of(3), ports_of(3), BINARIES)


def arguments(blueprint: Blueprint, part: str) -> list[str]:
    return next(item.arguments for item in blueprint.supervisor.parts if item.name == part)


def test_the_node_accepts_cgroup_v1_and_keeps_to_its_own_cgroup(node: Blueprint) -> None:
    """The kubelet's default refuses machines with cgroup v1."""
    config = json.loads(node.files[LAYOUT.config / "kubelet.json"])
    found = (config["failCgroupV1"], config["cgroupRoot"], config["clusterDNS"])
    assert found == (False, "/c", ["10.96.48.10"])


def test_the_node_never_collects_images(node: Blueprint) -> None:
    config = json.loads(node.files[LAYOUT.config / "kubelet.json"])
    assert config["imageGCHighThresholdPercent"] == 100


def test_pods_get_addresses_of_the_clusters_own_range(node: Blueprint) -> None:
    """The bridge hands out the first /24, which is the one node's share."""
    config = json.loads(node.files[LAYOUT.config / "cni" / "10-pods.conflist"])
    assert config["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.48.0/24"}]]


def test_a_cluster_of_ipv6_listens_and_routes_there() -> None:
    """API server, kubelet and kube-proxy, pods and their default route, the node itself."""
    network = network_of(3, Family.IPV6)
    found = build_full_cluster(LAYOUT, network, BINARIES, store=Path("/cache/0"), cgroup="c")
    flags = arguments(found, "kube-apiserver")
    assert {"--bind-address=::", "--advertise-address=fd00:10:99:3::2"} <= set(flags)
    kubelet = json.loads(found.files[LAYOUT.config / "kubelet.json"])
    assert (kubelet["address"], kubelet["clusterDNS"]) == ("::", ["fd00:10:96::3:a"])
    assert json.loads(found.files[LAYOUT.config / "kube-proxy.json"])["bindAddress"] == "::"
    pods = json.loads(found.files[LAYOUT.config / "cni" / "10-pods.conflist"])["plugins"][0]["ipam"]
    assert pods["ranges"] == [[{"subnet": "fd00:10:244:300::/64"}]]
    assert pods["routes"] == [{"dst": "::/0"}]
    assert found.supervisor.node is not None
    assert found.supervisor.node.gateway == "fd00:10:99:3::1"


def test_a_control_plane_alone_stays_on_loopback(plane: Blueprint) -> None:
    """Nothing of it can be reached from another machine."""
    found = [flag for flag in arguments(plane, "kube-apiserver") if "bind-address" in flag]
    assert found == ["--bind-address=127.0.0.1"]


@pytest.mark.parametrize("part", ["kube-controller-manager", "kube-scheduler"])
def test_controllers_are_not_limited_to_twenty_requests_a_second(
    plane: Blueprint, part: str
) -> None:
    """A thousand objects are limited by what is tested, not by the cluster's defaults."""
    found = [flag for flag in arguments(plane, part) if flag.startswith("--kube-api-")]
    assert found == ["--kube-api-qps=500", "--kube-api-burst=1000"]


def test_volumes_are_made_on_demand_where_there_is_a_node(
    node: Blueprint, plane: Blueprint
) -> None:
    """Without a node the provisioner would make directories on the machine itself."""
    flag = "--enable-hostpath-provisioner=true"
    found = [flag in arguments(x, "kube-controller-manager") for x in (node, plane)]
    assert found == [True, False]


def test_the_supervisors_specification_survives_the_trip_through_a_file(
    node: Blueprint, tmp_path: Path
) -> None:
    node.supervisor.write(tmp_path / "spec.json")
    assert SupervisorSpec.read(tmp_path / "spec.json") == node.supervisor


def test_the_servers_certificate_names_every_address_it_is_reached_by() -> None:
    """Loopback, Service address, node address; the kubelet's names the node alone."""
    network = network_of(0)
    plan = plan_certificates((network.api_service_ip, network.node_ip))
    names = {item.name: item.server_names for item in plan if item.server_names}
    assert {"IP:127.0.0.1", "IP:10.96.0.1", "IP:10.99.0.2"} <= set(names["apiserver"])
    assert names["kubelet-server"] == ("DNS:node1", "IP:10.99.0.2")


def test_authorities_come_before_what_they_sign() -> None:
    plan = plan_certificates(())
    order = [item.name for item in plan]
    late = [item.name for item in plan if order.index(item.authority) > order.index(item.name)]
    assert late == []
