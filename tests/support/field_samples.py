"""Every field of the resource with a value that is not its default, and what that value needs."""

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from annotated_types import Ge
from pydantic.fields import FieldInfo

from mm_api.base import ApiModel
from mm_api.v1alpha1 import MultimodalModelSpec
from support.model_documents import CANARY

_TOLERATION = {"key": "gpu", "operator": "Exists"}
_AFFINITY = {"nodeAffinity": {}}
_S3 = {"persistentVolumeClaim": None}
_HUB = {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}
_UNKNOWN_GPU = {"product": "NVIDIA-NEXT", "memory": "80Gi", "computeCapability": "9.0"}
_ENGINE_BUCKET = {"build": {"store": {"s3": {"bucket": "engines"}}}}


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of one field.

    Attributes:
        value: valid by itself, and not the default.
        beside: spec that the value needs to be valid; both sides of a comparison have it.
    """

    value: object
    beside: Mapping[str, Any] = field(default_factory=dict)


_SOURCE: Final[Mapping[str, Sample]] = {
    "model.family": Sample("llava"),
    "model.source.huggingFace.repo": Sample("c/d", {"model": {"source": _HUB}}),
    "model.source.huggingFace.revision": Sample("v2", {"model": {"source": _HUB}}),
    "model.source.huggingFace.tokenSecretRef.name": Sample("hub", {"model": {"source": _HUB}}),
    "model.source.huggingFace.tokenSecretRef.key": Sample(
        "other",
        {
            "model": {
                "source": {
                    **_HUB,
                    "huggingFace": {"repo": "a/b", "tokenSecretRef": {"name": "hub"}},
                }
            }
        },
    ),
    "model.source.huggingFace.endpoint": Sample(
        "https://mirror.example.org", {"model": {"source": _HUB}}
    ),
    "model.source.persistentVolumeClaim.claimName": Sample("other"),
    "model.source.persistentVolumeClaim.path": Sample("deep"),
    **{
        f"model.source.s3.{name}": Sample(
            value, {"model": {"source": {**_S3, "s3": {"bucket": "weights"}}}}
        )
        for name, value in {
            "bucket": "other",
            "prefix": "deep",
            "region": "eu-west-1",
            "endpoint": "https://s3.example.org",
            "credentialsSecretRef.name": "keys",
        }.items()
    },
}

_STORE: Final[Mapping[str, Sample]] = {
    "build.store.persistentVolumeClaim.claimName": Sample("engines"),
    "build.store.persistentVolumeClaim.path": Sample(
        "deep", {"build": {"store": {"persistentVolumeClaim": {"claimName": "engines"}}}}
    ),
    **{
        f"build.store.s3.{name}": Sample(value, _ENGINE_BUCKET)
        for name, value in {
            "bucket": "other",
            "prefix": "deep",
            "region": "eu-west-1",
            "endpoint": "https://s3.example.org",
            "credentialsSecretRef.name": "keys",
        }.items()
    },
    "build.store.size": Sample("60Gi"),
    "build.store.storageClassName": Sample("fast"),
    "build.store.gcAfter": Sample("1h"),
}

_ENGINE: Final[Mapping[str, Sample]] = {
    "engine.maxBatchSize": Sample(4),
    "engine.dtype": Sample("bfloat16"),
    "engine.dtype@PyTorch": Sample("float16"),
    "engine.dtype@VLLM": Sample("float16"),
    # Auto and On differ where it cannot be done; both begin with 1.2.
    "engine.guidedDecoding@PyTorch": Sample("Off", {"build": {"trtllmVersion": "1.2.0"}}),
    "engine.maxInputLen@Reference": Sample(100, {"engine": {"maxSeqLen": 120}}),
    "engine.maxInputLen": Sample(2900, {"engine": {"maxSeqLen": 4000}}),
    "engine.maxSeqLen@Reference": Sample(120),
    "engine.maxSeqLen": Sample(4000),
    "engine.maxNumTokens": Sample(4096),
    "engine.maxImagesPerRequest": Sample(2),
    "engine.maxVideoFrames": Sample(2),
    "engine.maxMultimodalLen": Sample(16000),
    "engine.maxEncoderInputLen": Sample(64),
    "engine.kvCache.freeGpuMemoryFraction": Sample("0.5"),
    "engine.kvCache.crossFraction": Sample("0.5"),
    "engine.kvCache.reuse": Sample(value=True),
    "engine.kvCache.reuseBytes": Sample("4Gi", {"engine": {"kvCache": {"reuse": True}}}),
    "engine.lora": Sample(
        [{"name": "one", "source": {"persistentVolumeClaim": {"claimName": "adapters"}}}]
    ),
    "engine.plugins": Sample({"use_fused_mlp": "enable"}),
    "engine.extraBuildArgs": Sample(["--use_fused_mlp=enable"]),
    "engine.extraArgs": Sample(["--kv-cache-dtype", "fp8"]),
    "engine.extraLlmApiOptions": Sample({"stream_interval": 4}),
}

_OTHER: Final[Mapping[str, Sample]] = {
    "vision.featureCacheBytes": Sample("64Mi"),
    "vision.sharing": Sample("TimeSlicing"),
    **{
        f"vision.{name}{backend}": Sample(
            value, {"vision": {"placement": "Disaggregated", **engine}}
        )
        for name, value in {
            "replicas": 2,
            "resources.requests": {"cpu": 1},
            "resources.limits": {"cpu": 1},
        }.items()
        # Encoders in front of vLLM compute with torch alone.
        for backend, engine in {"": {}, "@VLLM": {"engine": "Torch"}}.items()
    },
    **{
        f"{part}.{name}": Sample(value)
        for part in ("build", "runtime")
        for name, value in {
            "nodeSelector": {"pool": "a"},
            "tolerations": [_TOLERATION],
            "affinity": _AFFINITY,
            "priorityClassName": "high",
            "runtimeClassName": "nvidia",
            "gpu.product": "NVIDIA-H200",
            "resources.requests": {"cpu": 3},
            "resources.limits": {"cpu": 3},
        }.items()
    },
    **{
        f"{part}.gpu.{name}": Sample(value, {part: {"gpu": _UNKNOWN_GPU}})
        for part in ("build", "runtime")
        for name, value in {
            "memory": "160Gi",
            "computeCapability": "10.0",
            "resourceName": "nvidia.com/mig-1g.18gb",
        }.items()
    },
    "runtime.gpu.deviceClassName": Sample("gpu.nvidia.com"),
    "runtime.gpu.deviceSelectors": Sample(
        ["device.attributes['gpu.nvidia.com'].index < 4"],
        {"runtime": {"gpu": {"deviceClassName": "gpu.nvidia.com"}}},
    ),
    "build.image": Sample("example.org/tritonserver:25.06-trtllm-python-py3"),
    "build.trtllmVersion": Sample("0.19.0"),
    "build.trtllmVersion@PyTorch": Sample("1.1.0"),
    "runtime.gpu.computeCapability@PyTorch": Sample("7.5", {"runtime": {"gpu": _UNKNOWN_GPU}}),
    "build.gpu.computeCapability@PyTorch": Sample("7.5", {"build": {"gpu": _UNKNOWN_GPU}}),
    "build.gpu.count": Sample(2),
    "runtime.gpu.count": Sample(2),
    "runtime.blsInstances": Sample(2),
    "runtime.triton.maxQueueDelayMicroseconds": Sample(20_000),
    "runtime.triton.enableChunkedContext": Sample(
        value=True, beside={"engine": {"kvCache": {"reuse": True}}}
    ),
    "runtime.triton.preprocessingInstanceCount": Sample(2),
    "runtime.triton.postprocessingInstanceCount": Sample(2),
    "runtime.triton.allowFrom": Sample(
        [{"podSelector": {"matchLabels": {"app": "client"}}}],
        {"runtime": {"triton": {"expose": True}}},
    ),
    "build.timeout": Sample("3h"),
    "build.ttlAfterFinished": Sample("12h"),
    "runtime.vllmVersion": Sample("0.20.0"),
    "runtime.image@VLLM": Sample("example.org/vllm:v0.26.0"),
    "runtime.gpu.computeCapability@VLLM": Sample("7.5", {"runtime": {"gpu": _UNKNOWN_GPU}}),
    "build.gpu.computeCapability@VLLM": Sample("7.5", {"build": {"gpu": _UNKNOWN_GPU}}),
    "runtime.image": Sample("example.org/tritonserver:25.06-trtllm-python-py3"),
    "runtime.memoryPools.cuda": Sample("4Gi"),
    "runtime.memoryPools.pinned": Sample("512Mi"),
    "runtime.serviceAccountName": Sample("serving"),
    "runtime.imagePullSecrets": Sample(["registry"]),
    "build.serviceAccountName": Sample("building"),
    "runtime.userIds": Sample("Namespace"),
    "runtime.topologySpreadConstraints": Sample([{"topologyKey": "topology.kubernetes.io/zone"}]),
    "runtime.podLabels": Sample({"team": "a"}),
    "gateway.maxImageBytes": Sample("10Mi"),
    "gateway.allowedHosts": Sample(["images.example.org"]),
    "gateway.authSecretRef.name": Sample("tokens"),
    "gateway.authSecretRef.key": Sample(
        "other", {"gateway": {"authSecretRef": {"name": "tokens"}}}
    ),
    "gateway.fetchTimeout": Sample("5s"),
    "gateway.requestTimeout": Sample("4m"),
    "gateway.streamKeepAlive": Sample("20s"),
    "gateway.maxQueueTokens": Sample(100_000),
    "gateway.keyLimits": Sample(
        [{"name": "a", "requestsPerMinute": 60}], {"gateway": {"authSecretRef": {"name": "tokens"}}}
    ),
    "gateway.resources.requests": Sample({"cpu": 2}),
    "gateway.resources.limits": Sample({"cpu": 2}),
    "network.proxy.http": Sample("http://proxy.example.org:3128"),
    "network.proxy.https": Sample("http://proxy.example.org:3128"),
    "network.proxy.noProxy": Sample(
        [".example.org"], {"network": {"proxy": {"http": "http://proxy.example.org:3128"}}}
    ),
    "network.proxy.requestUrls": Sample(
        value=True, beside={"network": {"proxy": {"https": "http://proxy.example.org:3128"}}}
    ),
    "network.ipFamilyPolicy": Sample("PreferDualStack"),
    "network.caBundle.configMapName": Sample("authorities"),
    "network.caBundle.key": Sample(
        "all.pem", {"network": {"caBundle": {"configMapName": "authorities"}}}
    ),
    "network.hubEndpoint": Sample("https://mirror.example.org", {"model": {"source": _HUB}}),
    "rollout.strategy": Sample("Recreate"),
    **{
        f"rollout.canary.{name}": Sample(value, {"rollout": CANARY})
        for name, value in {
            "steps": [{"weight": 20, "pause": "5m"}],
            "analysis.errorIncreasePercent": 10,
            "analysis.firstTextIncreasePercent": 25,
            "analysis.interTokenIncreasePercent": 25,
        }.items()
    },
    "rollout.maxSurge": Sample(2),
    "rollout.progressDeadline": Sample("20m"),
    "rollout.drainTimeout": Sample("10m"),
}

WRITTEN: Final[Mapping[str, Sample]] = {**_SOURCE, **_STORE, **_ENGINE, **_OTHER}


def leaves(
    model: type[ApiModel] = MultimodalModelSpec, path: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    for name, info in model.model_fields.items():
        where = f"{path}{info.alias or name}"
        options = typing.get_args(info.annotation) or (info.annotation,)
        part = next(
            (one for one in options if isinstance(one, type) and issubclass(one, ApiModel)), None
        )
        if part is not None and typing.get_origin(info.annotation) is not list:
            yield from leaves(part, f"{where}.")
        else:
            yield where, info


def sample_of(path: str, info: FieldInfo, backend: str) -> Sample:
    for key in (f"{path}@{backend}", path):
        if key in WRITTEN:
            return WRITTEN[key]
    options = [info.annotation, *typing.get_args(info.annotation)]
    if bool in options:
        return Sample(not info.default)
    if int in options:
        least = next((rule.ge for rule in info.metadata if isinstance(rule, Ge)), 0)
        return Sample(int(info.default if info.default is not None else least) + 1)  # type: ignore[call-overload]
    for option in options:
        if typing.get_origin(option) is typing.Literal:
            return Sample(next(one for one in typing.get_args(option) if one != info.default))
    raise LookupError(f"{path} has no sample: write one in {__file__}")
