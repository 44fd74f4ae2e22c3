"""Rules of gateways, devices and metrics, with fields that keep each and that break it."""

from collections.abc import Mapping
from typing import Any

from mm_api.metrics import OBJECTIVE_HISTOGRAMS

_TOKENS = {"authSecretRef": {"name": "tokens"}}

GATEWAY_RULES: tuple[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    (
        "a-key-has-one-entry",
        "keyLimits",
        "each key may have one entry",
        {**_TOKENS, "keyLimits": [{"name": "a"}, {"name": "*"}]},
        {**_TOKENS, "keyLimits": [{"name": "a"}, {"name": "a"}]},
    ),
    (
        "limits-of-keys-need-keys",
        "keyLimits",
        "keyLimits need authSecretRef",
        {**_TOKENS, "keyLimits": [{"name": "a"}]},
        {"keyLimits": [{"name": "a"}]},
    ),
    (
        "comments-are-not-a-flood",
        "streamKeepAlive",
        "streamKeepAlive must be at least 1s",
        {"streamKeepAlive": "1s"},
        {"streamKeepAlive": "999ms"},
    ),
    (
        "host-may-be-public",
        "allowedHosts",
        "allowedHosts has a host that is never fetched from",
        {"allowedHosts": ["images.example.org", "8.8.8.8"]},
        {"allowedHosts": ["169.254.169.254"]},
    ),
    (
        "address-has-one-notation",
        "allowedHosts",
        "allowedHosts has an address that is not written as four numbers",
        {"allowedHosts": ["8.8.8.8"]},
        {"allowedHosts": ["0x7f.1"], "allowPrivateNetworks": True},
    ),
    (
        "images-have-bytes",
        "maxImageBytes",
        "maxImageBytes must be above zero",
        {"maxImageBytes": "1Ki"},
        {"maxImageBytes": 0},
    ),
    (
        "fetching-is-part-of-the-request",
        "fetchTimeout",
        "fetchTimeout must not be above requestTimeout",
        {"fetchTimeout": "10s", "requestTimeout": "10s"},
        {"fetchTimeout": "10s1ms", "requestTimeout": "10s"},
    ),
)


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


METRIC_RULES: tuple[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    *(
        (
            f"{metric}-has-buckets",
            "objectives[0].target",
            f"target of {metric} must be from ",
            {"objectives": [{"metric": metric, "target": "1s"}]},
            {"objectives": [{"metric": metric, "target": "1h"}]},
        )
        for metric in OBJECTIVE_HISTOGRAMS
    ),
)
