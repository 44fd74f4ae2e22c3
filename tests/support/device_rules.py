"""Rules of GPUs that are claimed as devices, each with a spec that keeps it and one that breaks it.

The values of `model_documents.RuleExample`, complete but for the backend.
"""

from collections.abc import Mapping
from typing import Any

_CLASS = {"deviceClassName": "gpu.nvidia.com"}
_SLICE = {"deviceClassName": "mig.nvidia.com", "memory": "20Gi", "computeCapability": "9.0"}


def _on(gpu: Mapping[str, Any]) -> dict[str, Any]:
    return {"engine": {"backend": "TensorRT"}, "runtime": {"gpu": dict(gpu)}}


DEVICE_RULES: tuple[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    (
        "devices-are-claimed-or-requested",
        "spec.runtime.gpu.deviceClassName",
        "deviceClassName and resourceName exclude each other",
        _on(_CLASS),
        _on({**_CLASS, "resourceName": "nvidia.com/gpu"}),
    ),
    (
        "selectors-are-of-a-class",
        "spec.runtime.gpu.deviceSelectors",
        "deviceSelectors choose among the devices of deviceClassName",
        _on({**_CLASS, "deviceSelectors": ["true"]}),
        _on({"deviceSelectors": ["true"]}),
    ),
    (
        "devices-of-other-classes-are-described",
        "spec.runtime.gpu.deviceClassName",
        "of devices of another class than gpu.nvidia.com nothing is known",
        _on(_SLICE),
        _on({"deviceClassName": "mig.nvidia.com"}),
    ),
    (
        "builds-claim-the-same-devices",
        "spec.build.gpu.resourceName",
        "builds claim devices of runtime.gpu.deviceClassName, too",
        {**_on(_CLASS), "build": {"gpu": {"count": 2}}},
        {**_on(_CLASS), "build": {"gpu": {"resourceName": "nvidia.com/gpu"}}},
    ),
)
