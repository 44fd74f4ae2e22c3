"""The parts' configuration holds the settings without which the cluster would not work."""

from dataclasses import asdict
from pathlib import Path

import pytest

from mm_devcluster.addresses import Family, network_of, ports_of
from mm_devcluster.binaries import CONTROL_PLANE, NODE
from mm_devcluster.blueprint import Blueprint, build_control_plane, build_full_cluster
from mm_devcluster.certificates import plan_certificates
from mm_devcluster.layout import Layout
from mm_devcluster.supervisor.spec import SupervisorSpec
from support.golden import Golden

LAYOUT = Layout(Path("/state/clusters/c"))
BINARIES = {name: Path("/bin") / name for name in (*NODE, *CONTROL_PLANE)}


def full_cluster(family: Family = Family.IPV4) -> Blueprint:
    network = network_of(3, family)
    return build_full_cluster(LAYOUT, network, BINARIES, store=Path("/cache/0"), cgroup="c")


CLUSTERS = {
    "node": full_cluster(),
    "node-of-ipv6": full_cluster(Family.IPV6),
    "control-plane": build_control_plane(LAYOUT, network_of(3), ports_of(3), BINARIES),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_files_and_arguments_are_as_recorded(name: str, golden: Golden) -> None:
    """A node takes cgroup v1 and collects no images; a control plane alone is on loopback."""
    blueprint = CLUSTERS[name]
    files = {str(path): text for path, text in blueprint.files.items()}
    parts = {one.name: one.arguments for one in blueprint.supervisor.parts}
    node = blueprint.supervisor.node
    golden.check_yaml(
        f"{name}.yaml", {"files": files, "parts": parts, "node": node and asdict(node)}
    )


def test_the_supervisors_specification_survives_the_trip_through_a_file(tmp_path: Path) -> None:
    node = CLUSTERS["node"]
    node.supervisor.write(tmp_path / "spec.json")
    assert SupervisorSpec.read(tmp_path / "spec.json") == node.supervisor


def test_the_servers_certificate_names_every_address_it_is_reached_by() -> None:
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
