"""What a user may query of a cluster is checked before anything is started."""

import pytest

from mm_devcluster.addresses import Family
from mm_devcluster.errors import DevClusterError
from mm_devcluster.options import ClusterOptions, FakeDevices, parse_devices


@pytest.mark.parametrize(
    "name",
    ["", "Dev", "a_b", "-a", "a-", "x" * 21, "../up", "a b"],
    ids=["empty", "capital", "underscore", "dash-first", "dash-last", "long", "path", "space"],
)
def test_a_name_that_cannot_be_a_cgroup_is_refused(name: str) -> None:
    with pytest.raises(DevClusterError, match="lower-case letters, digits or dashes"):
        ClusterOptions(name=name)


def test_devices_become_resources_and_labels() -> None:
    """A count is an extended resource, anything else a label below it."""
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


def test_devices_without_a_node_are_refused() -> None:
    with pytest.raises(DevClusterError, match="devices need a node"):
        ClusterOptions(control_plane_only=True, gpu="nvidia.com/gpu=1")


def test_a_control_plane_without_a_node_has_no_family() -> None:
    """It is on 127.0.0.1."""
    with pytest.raises(DevClusterError, match="leave out --ip-family"):
        ClusterOptions(control_plane_only=True, ip_family=Family.IPV6)
