"""What a caller may choose about a cluster, checked before anything is started."""

import re
from dataclasses import dataclass, field

from mm_devcluster.addresses import Family
from mm_devcluster.errors import DevClusterError

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?")
RESOURCE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")
HOST = re.compile(r"host(,replicas=(?P<replicas>[1-9][0-9]?))?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class FakeDevices:
    """Extended resources and labels that the node claims to have.

    They prove scheduling and node selection; a container that requests one gets no device.
    """

    resources: dict[str, int] = field(default_factory=dict)
    """Resource name to count: ``{"nvidia.com/gpu": 2}``."""
    labels: dict[str, str] = field(default_factory=dict)
    """Node labels: ``{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}``."""


@dataclass(frozen=True)
class HostGpus:
    """The machine's own GPUs, by NVIDIA's device plugin."""

    replicas: int = 1
    """Pods that take turns on each GPU (time slicing); 1: none share."""


@dataclass(frozen=True)
class ClusterOptions:
    """Everything that configures ``up``. The defaults are what the demo uses."""

    name: str = "dev"
    """Lower-case letters, digits and dashes, 20 characters at most: it names a cgroup."""
    control_plane_only: bool = False
    """API server and controllers on loopback: no node, no pods, no root, ready in seconds."""
    gpu: str | FakeDevices | HostGpus | None = None
    """Devices of the node, as text for ``parse_devices`` or parsed."""
    owner_pid: int | None = None
    """The cluster is stopped when this process ends, however it ends. None: runs until ``down``."""
    install_packages: bool = False
    """Install missing Debian packages instead of listing them in an error."""
    ip_family: Family = Family.IPV4
    """Which addresses node, pods and Services have."""
    await_node: bool = True
    """Whether to wait for all of it; else for the API server, and pods wait for the rest."""
    timeout: float = 300.0
    """Seconds until ``up`` gives up, compiling not counted."""

    def __post_init__(self) -> None:
        """Refuse names and combinations that could not work.

        Raises:
            DevClusterError: The name is malformed, or devices are requested of a missing node.
        """
        if not NAME.fullmatch(self.name):
            message = (
                f"cluster name {self.name!r} must be 1 to 20 lower-case letters, digits or dashes, "
                "beginning and ending with a letter or digit"
            )
            raise DevClusterError(message)
        if self.gpu and not self.await_node:
            raise DevClusterError("devices are given to a node that is there: leave out await_node")
        if self.control_plane_only and self.gpu:
            message = "devices need a node: leave out --gpu or --control-plane-only"
            raise DevClusterError(message)
        if self.control_plane_only and self.ip_family is not Family.IPV4:
            message = "a control plane without a node is on 127.0.0.1: leave out --ip-family"
            raise DevClusterError(message)

    @property
    def devices(self) -> FakeDevices | HostGpus:
        """The devices, parsed."""
        if self.gpu is None:
            return FakeDevices()
        return parse_devices(self.gpu) if isinstance(self.gpu, str) else self.gpu


def parse_devices(text: str) -> FakeDevices | HostGpus:
    """Parse ``host``, ``host,replicas=4``, or ``nvidia.com/gpu=2,product=NVIDIA-H100-80GB-HBM3``.

    ``host`` is the machine's own GPUs. Anything else are resources and labels of fake devices.

    ``domain/resource=N`` is an extended resource. ``key=value`` is a label below the first
    resource (``nvidia.com/gpu.product``); ``domain/key=value`` is a label under its full name.
    A resource also gets the label ``<resource>.present=true``, as NVIDIA's discovery sets it.

    Raises:
        DevClusterError: An item is not of these forms, or a label comes before any resource.
    """
    if found := HOST.fullmatch(text):
        return HostGpus(int(found["replicas"] or 1))
    resources: dict[str, int] = {}
    labels: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = item.partition("=")
        if not equals or not LABEL_VALUE.fullmatch(value):
            message = f"fake device {item!r} must read resource=count or label=value"
            raise DevClusterError(message)
        if RESOURCE.fullmatch(key) and value.isdigit():
            resources[key] = int(value)
            labels[f"{key}.present"] = "true"
        elif RESOURCE.fullmatch(key):
            labels[key] = value
        elif resources and re.fullmatch(r"[A-Za-z0-9._-]+", key):
            labels[f"{next(iter(resources))}.{key}"] = value
        else:
            message = (
                f"label {item!r} needs a resource before it, for example nvidia.com/gpu=1,{item}"
            )
            raise DevClusterError(message)
    return FakeDevices(resources, labels)
