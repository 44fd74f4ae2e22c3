"""The machine's own GPUs as a node's: what NVML says of them, labels, the plugin's part.

NVIDIA's device plugin passes the device files to the pods that request ``nvidia.com/gpu``; the
driver's programs and libraries are mounted into every container at `DRIVER`, where images of NVIDIA
look for them (``LD_LIBRARY_PATH``).
"""

import ctypes
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_devcluster.errors import DevClusterError
from mm_devcluster.options import HostGpus

DRIVER = "/usr/local/nvidia"
RESOURCE = "nvidia.com/gpu"
SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
_TEXT = 96  # bytes: NVML_DEVICE_NAME_V2_BUFFER_SIZE, and more than a UUID or a version has
FAMILIES = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML describes it."""

    name: str
    memory_mib: int
    compute: tuple[int, int]
    driver: str
    cuda: tuple[int, int]
    """The newest CUDA that the driver runs."""


def read_gpus(driver: Path) -> tuple[Gpu, ...]:
    """Read this machine's GPUs from NVML.

    Raises:
        DevClusterError: There is no driver, or it knows no GPU.
    """
    library = driver / "lib64" / "libnvidia-ml.so.1"
    try:
        nvml = ctypes.CDLL(str(library))
    except OSError as error:
        raise DevClusterError(
            f"--gpu host needs NVIDIA's driver in {driver}, and NVML does not load: {error}; "
            "set MM_DRIVER_DIR to the folder whose lib64 has libnvidia-ml.so.1"
        ) from error
    count, cuda = ctypes.c_uint(), ctypes.c_int()
    driver_version = ctypes.create_string_buffer(_TEXT)
    _call(nvml, "nvmlInit_v2")
    try:
        _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
        _call(nvml, "nvmlSystemGetDriverVersion", driver_version, _TEXT)
        _call(nvml, "nvmlSystemGetCudaDriverVersion", ctypes.byref(cuda))
        if not count.value:
            raise DevClusterError("--gpu host: NVIDIA's driver knows no GPU on this machine")
        version = (cuda.value // 1000, cuda.value % 1000 // 10)
        return tuple(
            _gpu(nvml, index, driver_version.value.decode(), version)
            for index in range(count.value)
        )
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ctypes.CDLL, index: int, driver: str, cuda: tuple[int, int]) -> Gpu:
    device, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(_TEXT)
    memory = (ctypes.c_ulonglong * 3)()  # nvmlMemory_t: total, free, used
    _call(nvml, "nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
    _call(nvml, "nvmlDeviceGetName", device, name, _TEXT)
    _call(nvml, "nvmlDeviceGetMemoryInfo", device, memory)
    compute = ctypes.byref(major), ctypes.byref(minor)
    _call(nvml, "nvmlDeviceGetCudaComputeCapability", device, *compute)
    return Gpu(name.value.decode(), memory[0] >> 20, (major.value, minor.value), driver, cuda)


def _call(nvml: ctypes.CDLL, function: str, *arguments: Any) -> None:
    code = getattr(nvml, function)(*arguments)
    if code:
        raise DevClusterError(f"--gpu host: NVML's {function} answered {code}")


def gpu_labels(gpus: Sequence[Gpu], sharing: HostGpus) -> dict[str, str]:
    """Return the node's labels by the names and values of NVIDIA's GPU feature discovery: PURE.

    It is not compiled here: a module that it needs is not served. As there, all GPUs are taken to
    be of the first one's kind.
    """
    first, shared = gpus[0], sharing.replicas > 1
    product = "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", first.name).split())
    found: dict[str, object] = {
        "gpu.present": "true",
        "gpu.product": f"{product}-SHARED" if shared else product,
        "gpu.memory": first.memory_mib,
        "gpu.count": len(gpus),
        "gpu.replicas": sharing.replicas,
        "gpu.sharing-strategy": "time-slicing" if shared else "none",
        "gpu.family": FAMILIES.get(first.compute[0], "undefined"),
        "gpu.compute.major": first.compute[0],
        "gpu.compute.minor": first.compute[1],
        "cuda.driver-version.full": first.driver,
        "cuda.runtime-version.full": ".".join(map(str, first.cuda)),
        "mps.capable": "false",  # of the plugin's own sharing by MPS, which is not set up
    }
    return {f"nvidia.com/{name}": str(value) for name, value in found.items()}


def plugin_config(sharing: HostGpus) -> str:
    """Return the device plugin's configuration: the kubelet passes device files: PURE."""
    document: dict[str, Any] = {
        "version": "v1",
        "flags": {
            "migStrategy": "none",
            "failOnInitError": True,
            "plugin": {"passDeviceSpecs": True, "deviceListStrategy": ["envvar"]},
        },
    }
    if sharing.replicas > 1:
        slices = {"name": RESOURCE, "replicas": sharing.replicas}
        document["sharing"] = {"timeSlicing": {"resources": [slices]}}
    return json.dumps(document, indent=2) + "\n"  # JSON is YAML


def with_driver(container: str, driver: Path) -> str:
    """Return containerd's default of a container, with the driver mounted: PURE.

    Args:
        container: An OCI runtime specification, as ``ctr oci spec`` prints it.
        driver: Folder of the driver on this machine.
    """
    document: dict[str, Any] = json.loads(container)
    mount = {"destination": DRIVER, "type": "bind", "source": str(driver)}
    document["mounts"].append({**mount, "options": ["rbind", "ro", "nosuid", "nodev"]})
    return json.dumps(document, indent=2) + "\n"
