"""The parts of a pod that a user may set: resources, GPUs and where it may run."""

from typing import Annotated, Any, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.names import LabelKey, LabelValue, ObjectName
from mm_api.v1alpha1.quantity import Quantity, bytes_of

ResourceList = Annotated[dict[LabelKey, Quantity], Field(max_length=16)]
"""Name of a resource -> quantity."""


class Resources(ApiModel):
    """Compute resources of one container."""

    requests: ResourceList = Field(
        default={}, description="What the scheduler sets aside, for example cpu: 2, memory: 8Gi."
    )
    limits: ResourceList = Field(
        default={},
        description="What the container may use at most; above its memory it is killed. Servers, "
        "encoders and gateways without a memory limit get the planned one; `memory: 0`: none.",
    )

    @property
    def memory_limit(self) -> int | None:
        """Bytes that `limits` state; None: any, as with 0."""
        return bytes_of(self.limits.get("memory", 0)) or None


GpuResource = Annotated[
    str,
    Field(
        pattern=r"^nvidia[.]com/(gpu|mig-[1-9]g[.][1-9][0-9]{0,2}gb([.]me)?)([.]shared)?$",
        max_length=63,
    ),
]
"""What NVIDIA's device plugin names the GPUs of a node, slices included."""


GpuProduct = Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=63)]


class Gpu(ApiModel):
    """GPUs of one pod."""

    product: GpuProduct | None = Field(
        default=None,
        description="GPU product, as in the node label nvidia.com/gpu.product, for example "
        "NVIDIA-H100-80GB-HBM3. Absent: any product.",
    )
    count: int = Field(
        default=0,
        ge=0,
        le=64,
        description="GPUs per pod (of the resource `resourceName`). Backend Reference: 0 computes "
        "on the processor, 1 on a GPU with CUDA.",
    )
    resource_name: GpuResource | None = Field(
        default=None,
        description="Extended resource that a GPU is requested by: nvidia.com/gpu, "
        "nvidia.com/gpu.shared, or a MIG slice such as nvidia.com/mig-3g.40gb, whose memory is "
        "planned. Absent: nvidia.com/gpu; of a build: that of spec.runtime.gpu.",
    )
    memory: Quantity | None = Field(
        default=None,
        description="Memory of one GPU, for example 80Gi: planned for where no node reports it and "
        "the product is not in the operator's table.",
    )
    compute_capability: (
        Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$", max_length=4)] | None
    ) = Field(
        default=None,
        description='Compute capability of the GPU, as text: "9.0"; goes with `memory`.',
    )


DeviceSelector = Annotated[str, Field(min_length=1, max_length=1024)]
"""A CEL expression about one device; the API server compiles it when the claim is made."""


class RuntimeGpu(Gpu):
    """GPUs of one replica; claims for devices are the builds', too."""

    device_class_name: ObjectName | None = Field(
        default=None,
        description="DeviceClass (dynamic resource allocation, resource.k8s.io/v1 of Kubernetes "
        "1.34) whose devices pods, encoders and builds claim instead of requesting an extended "
        "resource, for example gpu.nvidia.com. With any other class set `memory` and "
        "`computeCapability`, too.",
    )
    slot: ObjectName | None = Field(
        default=None,
        description="Models of one namespace with the same slot take turns on one GPU: one of them "
        "has a replica at a time, and the router holds the requests of the others. Needs "
        "autoscaling with minReplicas 0 and maxReplicas 1.",
    )
    device_selectors: Annotated[list[DeviceSelector], Field(max_length=8)] = Field(
        default=[],
        description="CEL expressions that must all hold for a device, as in a ResourceClaim, for "
        "example device.attributes['gpu.nvidia.com'].driverVersion"
        ".isGreaterThan(semver('580.0.0')).",
    )


class Toleration(ApiModel):
    """A taint that the pods tolerate."""

    key: LabelKey | None = Field(default=None, description="Key of the taint; absent: every key.")
    operator: Literal["Exists", "Equal"] = Field(
        default="Equal", description="Whether the taint's value must equal `value`."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; absent: every effect."
    )
    toleration_seconds: int | None = Field(
        default=None,
        ge=0,
        le=86_400 * 365,
        description="Seconds a pod stays after a NoExecute taint appears; absent: for ever.",
    )


class TopologySpread(ApiModel):
    """How evenly the pods of one revision are spread over places."""

    topology_key: LabelKey = Field(
        description="Label of nodes whose values are the places, for example "
        "topology.kubernetes.io/zone or kubernetes.io/hostname."
    )
    max_skew: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="By how many pods two places may differ.",
    )
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = Field(
        default="ScheduleAnyway",
        description="Whether a pod that no place takes evenly waits, or runs where it can.",
    )


UserIds = Literal["Fixed", "Namespace"]


class Scheduling(ApiModel):
    """Where pods may run."""

    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = Field(
        default={}, description="Labels that a node must have."
    )
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(
        default=[], description="Taints of nodes that the pods tolerate."
    )
    affinity: dict[str, Any] | None = Field(
        default=None,
        description="Affinity of the pods, exactly as in a pod's spec.affinity; the API server "
        "checks its content when the pods are made.",
    )
    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        default=None, description="Priority class of the pods."
    )
    runtime_class_name: ObjectName | None = Field(
        default=None,
        description="RuntimeClass of the pods, for example nvidia where GPUs need one. Absent: the "
        "nodes' default runtime.",
    )
