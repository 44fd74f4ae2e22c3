"""`up --gpu host`: labels as GPU feature discovery writes them, pods by NVIDIA's device plugin."""

import json
import subprocess
from pathlib import Path

import pytest

from mm_devcluster.cluster import ClusterOptions
from mm_devcluster.errors import DevClusterError
from mm_devcluster.node.gpus import Gpu, gpu_labels, plugin_config, read_gpus, with_driver
from mm_devcluster.options import HostGpus, parse_devices
from mm_operator.cluster.nodes import gpu_node
from mm_operator.plan.engine.gpu import choose_gpu
from support.clusters import kubectl_json, running_cluster
from support.models import spec_of

H200 = Gpu("NVIDIA H200", 143771, (9, 0), "580.159.04", (13, 0))
STUB = Path(__file__).with_name("nvml_stub.c")


def label(replicas: int, *gpus: Gpu) -> dict[str, str]:
    found = gpu_labels(gpus, HostGpus(replicas))
    return {name.removeprefix("nvidia.com/"): value for name, value in found.items()}


def test_labels_are_those_of_feature_discovery() -> None:
    one, shared = label(1, H200, H200), label(4, H200)
    assert (one["gpu.product"], one["gpu.count"], one["gpu.replicas"]) == ("NVIDIA-H200", "2", "1")
    assert (one["gpu.memory"], one["gpu.compute.major"], one["gpu.family"]) == (
        *("143771", "9"),
        "hopper",
    )
    changed = {name: value for name, value in shared.items() if one[name] != value}
    assert changed == {
        "gpu.product": "NVIDIA-H200-SHARED",
        "gpu.count": "1",
        "gpu.replicas": "4",
        "gpu.sharing-strategy": "time-slicing",
    }


def test_a_plan_reads_them() -> None:
    marks = gpu_labels([H200], HostGpus(4))
    node = gpu_node({"metadata": {"name": "node1", "labels": marks}})
    found = choose_gpu(spec_of(), (node,), None)
    assert (found.product, found.compute_capability) == ("NVIDIA-H200-SHARED", "9.0")
    assert 30 << 30 < found.memory_bytes < (143771 << 20) // 4


def test_the_plugin_passes_device_files_and_containers_get_the_driver() -> None:
    """Pods are not privileged; the driver is read only, wherever this machine has it."""
    config = json.loads(plugin_config(HostGpus(4)))
    assert config["flags"]["plugin"]["passDeviceSpecs"]
    slices = config["sharing"]["timeSlicing"]["resources"]
    assert slices == [{"name": "nvidia.com/gpu", "replicas": 4}]
    assert "sharing" not in json.loads(plugin_config(HostGpus()))
    mounts = json.loads(with_driver('{"mounts": []}', Path("/driver")))["mounts"]
    assert [(one["source"], one["destination"]) for one in mounts] == [
        ("/driver", "/usr/local/nvidia")
    ]
    assert "ro" in mounts[0]["options"]


def test_a_machine_without_a_driver_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match=r"MM_DRIVER_DIR to the folder whose lib64"):
        read_gpus(tmp_path)


@pytest.mark.cluster
@pytest.mark.slow
def test_the_node_offers_what_the_real_plugin_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's plugin on a stand-in of NVML: four turns of one GPU."""
    (tmp_path / "lib64").mkdir()
    library = tmp_path / "lib64" / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, STUB], timeout=60, check=True)
    monkeypatch.setenv("MM_DRIVER_DIR", str(tmp_path))
    assert parse_devices("host,replicas=4") == HostGpus(4)
    with running_cluster(ClusterOptions(name="gpus", gpu="host,replicas=4")) as cluster:
        node = kubectl_json(cluster, "get", "nodes")["items"][0]
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H200-SHARED"
