"""What a user may request of a cluster, and what a machine lacks for it, is said beforehand."""

import os
from pathlib import Path

import pytest

from mm_devcluster.addresses import Family
from mm_devcluster.errors import DevClusterError, MissingRequirementsError
from mm_devcluster.options import ClusterOptions, FakeDevices, parse_devices
from mm_devcluster.packages import NODE_PACKAGES, Package, describe, missing_packages
from mm_devcluster.preflight import file_system_of, missing_for_node


@pytest.mark.parametrize(
    "name",
    ["", "Dev", "a_b", "-a", "a-", "x" * 21, "../up", "a b"],
    ids=["empty", "capital", "underscore", "dash-first", "dash-last", "long", "path", "space"],
)
def test_a_name_that_cannot_be_a_cgroup_is_refused(name: str) -> None:
    with pytest.raises(DevClusterError, match="lower-case letters, digits or dashes"):
        ClusterOptions(name=name)


def test_devices_become_resources_and_labels() -> None:
    parsed = parse_devices("nvidia.com/gpu=2,product=NVIDIA-H100-80GB-HBM3,example.com/zone=a")
    expected = FakeDevices(
        resources={"nvidia.com/gpu": 2},
        labels={
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "example.com/zone": "a",
        },
    )
    assert parsed == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nvidia.com/gpu", "must read resource=count"),
        ("nvidia.com/gpu=", "must read resource=count"),
        ("product=H100", "needs a resource before it"),
        ("nvidia.com/gpu=1,product=a b", "must read resource=count"),
        ("nvidia.com/gpu=1,pro duct=a", "needs a resource before it"),
    ],
    ids=["no-count", "empty-count", "label-first", "bad-value", "bad-key"],
)
def test_a_malformed_device_is_refused(text: str, message: str) -> None:
    with pytest.raises(DevClusterError, match=message):
        parse_devices(text)


def test_a_control_plane_without_a_node_has_neither_devices_nor_a_family() -> None:
    with pytest.raises(DevClusterError, match="devices need a node"):
        ClusterOptions(control_plane_only=True, gpu="nvidia.com/gpu=1")
    with pytest.raises(DevClusterError, match="leave out --ip-family"):
        ClusterOptions(control_plane_only=True, ip_family=Family.IPV6)


MOUNTS = """\
/dev/vda / ext4 rw 0 0
overlay /var/tmp overlay rw 0 0
tmpfs /var/tmp/a\\040b tmpfs rw 0 0
"""


def test_an_absent_program_names_its_package_and_its_purpose() -> None:
    package = Package("runc", "no-such-program", "starts their containers")
    assert missing_packages((package,)) == (package,)
    assert describe((package,))[0] == "Debian package runc: starts their containers"


def test_one_message_holds_everything_and_the_other_way() -> None:
    text = str(MissingRequirementsError(("root", *describe(NODE_PACKAGES))))
    expected = ["root", "containerd", "iptables", "apt-get install", "CLUSTER=current"]
    assert [word for word in expected if word not in text] == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/x", "ext4"), ("/var/tmp/x", "overlay"), ("/var/tmp/a b/x", "tmpfs"), ("/", "ext4")],
    ids=["root", "overlay", "space", "top"],
)
def test_the_disk_below_a_path_is_recognised(path: str, kind: str) -> None:
    """The deepest mount decides, names with spaces too."""
    assert file_system_of(Path(path), MOUNTS) == kind


def test_without_root_the_message_says_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [item.split(":")[0] for item in missing_for_node("x")] == ["root"]


def test_a_directory_too_deep_for_a_socket_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The limit is the kernel's; the message names the directory."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("MM_STATE_DIR", str(tmp_path / ("d" * 100)))
    found = [item for item in missing_for_node("x") if "shorter state directory" in item]
    assert len(found) == 1
