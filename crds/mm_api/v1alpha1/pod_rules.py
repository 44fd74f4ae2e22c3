"""Rules of the parts of a pod, wherever they are used: see `mm_api.v1alpha1.rules`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mm_api.base import ApiModel
from mm_api.v1alpha1.pod import Resources, RuntimeGpu, Scheduling, Toleration


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule on one type: `self` is its object, `field` (wire name) what the message is about."""

    cel: str
    message: str
    field: str = ""


NVIDIA_GPUS: Final = "gpu.nvidia.com"
"""DeviceClass of NVIDIA's driver whose devices are entire GPUs."""

LABEL_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
)


def _without_gpus(field: str) -> Rule:

    return Rule(
        cel=f"!self.{field}.exists(name, name.startsWith('nvidia.com/'))",
        message=f"{field} name a GPU: gpu.count requests GPUs, and gpu.resourceName slices of "
        "them; remove nvidia.com/..., or the pod requests both",
        field=field,
    )


POD_RULES: Final[Mapping[type[ApiModel], tuple[Rule, ...]]] = {
    Resources: (
        Rule(
            cel="self.limits.all(name, !(name in self.requests) || "
            "quantity(string(self.requests[name]))"
            ".compareTo(quantity(string(self.limits[name]))) <= 0)",
            message="every request must be at most the limit of the same resource: lower the "
            "request or raise the limit",
            field="requests",
        ),
        *(_without_gpus(field) for field in ("limits", "requests")),
    ),
    RuntimeGpu: (
        Rule(
            cel="!has(self.deviceClassName) || !has(self.resourceName)",
            message="deviceClassName and resourceName exclude each other: GPUs come by claims for "
            "devices, or as an extended resource; remove one of them",
            field="deviceClassName",
        ),
        Rule(
            cel="has(self.deviceClassName) || !has(self.deviceSelectors) || "
            "size(self.deviceSelectors) == 0",
            message="deviceSelectors choose among the devices of deviceClassName: set it, or "
            "remove them",
            field="deviceSelectors",
        ),
        Rule(
            cel=f"!has(self.deviceClassName) || self.deviceClassName == '{NVIDIA_GPUS}' || "
            "(has(self.memory) && has(self.computeCapability))",
            message=f"of devices of another class than {NVIDIA_GPUS} nothing is known, and an "
            "engine is planned for a memory: set memory and computeCapability to those of one "
            "device",
            field="deviceClassName",
        ),
    ),
    Toleration: (
        Rule(
            cel="has(self.key) || self.operator == 'Exists'",
            message="a toleration without a key needs operator Exists",
            field="operator",
        ),
        Rule(
            cel="!has(self.value) || self.operator == 'Equal'",
            message="a toleration with operator Exists takes no value: remove the value",
            field="value",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds needs effect NoExecute",
            field="tolerationSeconds",
        ),
    ),
    Scheduling: (
        Rule(
            cel=f"self.nodeSelector.all(key, key.matches('{LABEL_KEY}'))",
            message="every key of nodeSelector must be a label key, for example "
            "nvidia.com/gpu.product",
            field="nodeSelector",
        ),
    ),
}
