"""MultimodalModel documents, right and wrong, that several kinds of tests go through."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mm_api import labels
from mm_api.families import FAMILIES
from mm_api.v1alpha1.unsupported import Unsupported
from support.gateway_rules import DEVICE_RULES, GATEWAY_RULES, METRIC_RULES

SMALLEST_SPEC: Mapping[str, Any] = {
    "model": {"source": {"persistentVolumeClaim": {"claimName": "checkpoints"}}}
}


def document(spec: Mapping[str, Any] | None = None, name: str = "llava") -> dict[str, Any]:
    """Return the smallest valid document with `spec` laid over it, part by part."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": name},
        "spec": merged(SMALLEST_SPEC, spec or {}),
    }


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    complete = dict(lower)
    for key, value in upper.items():
        below = complete.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        complete[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return complete


def adapters(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "source": SMALLEST_SPEC["model"]["source"]} for name in names]


def at(path: str, value: object) -> dict[str, Any]:
    """Return a spec in which only the field at the dotted path is set."""
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def in_slot(**parts: dict[str, Any]) -> dict[str, Any]:
    """Return a spec of a model that takes turns on a GPU, with parts in the place of others."""
    return {
        "runtime": {"gpu": {"slot": "shared"}},
        "rollout": {"strategy": "Recreate"},
        "autoscaling": {"minReplicas": 0},
        **parts,
    }


_ON_SLICES = {
    "engine": {"backend": "TensorRT"},
    "runtime": {"gpu": {"resourceName": "nvidia.com/mig-1g.10gb"}},
}


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A spec that keeps one rule and a spec that breaks it.

    Attributes:
        name: what the rule says, as an id.
        path: field that `validate` and the API server name.
        message: beginning of the rule's message.
        good: keeps the rule and is valid as an entire.
        bad: breaks the rule.
        model_name: metadata.name of the bad document.
    """

    name: str
    path: str
    message: str
    good: Mapping[str, Any]
    bad: Mapping[str, Any]
    model_name: str = "llava"


_SOURCE = "model.source.persistentVolumeClaim"
_LATENCY = {"metric": "TimeToFirstToken", "target": "500ms"}
_PROMETHEUS = {"addresses": ["http://prometheus.monitoring.svc:9090"]}

CANARY = {"strategy": "Canary", "canary": {"steps": [{"weight": 10}]}}

RULE_EXAMPLES = (
    *(
        RuleExample(name, f"spec.{part}.{field}", text, {part: good}, {part: bad})
        for part, rules in (("gateway", GATEWAY_RULES), ("autoscaling", METRIC_RULES))
        for name, field, text, good, bad in rules
    ),
    *(RuleExample(*example) for example in DEVICE_RULES),
    RuleExample("name-is-a-service-name", "", "metadata.name also names", {}, {}, "1-llava"),
    RuleExample(
        "name-is-not-that-of-encoders",
        "",
        "metadata.name ends with -encoders",
        {},
        {},
        "llava-encoders",
    ),
    RuleExample(
        "name-is-not-that-of-a-published-triton",
        "",
        "metadata.name ends with -triton",
        {},
        {},
        "llava-triton",
    ),
    RuleExample(
        "one-source",
        "spec.model.source",
        "set exactly one of",
        {},
        at("model.source.s3", {"bucket": "weights"}),
    ),
    RuleExample(
        "videos-have-a-vision-engine",
        "spec.engine.maxVideoFrames",
        "maxVideoFrames needs maxImagesPerRequest",
        {"engine": {"maxVideoFrames": 8, "maxImagesPerRequest": 1}},
        {"engine": {"maxVideoFrames": 8, "maxImagesPerRequest": 0}},
    ),
    RuleExample(
        "source-path-inside-volume",
        f"spec.{_SOURCE}.path",
        "path must stay inside the volume",
        at(f"{_SOURCE}.path", "a/..b/c"),
        at(f"{_SOURCE}.path", "a/../b"),
    ),
    RuleExample(
        "s3-prefix-inside-bucket",
        "spec.model.source.s3.prefix",
        "prefix must stay inside the volume",
        at(
            "model.source",
            {"persistentVolumeClaim": None, "s3": {"bucket": "weights", "prefix": "a/b"}},
        ),
        at("model.source.s3", {"bucket": "weights", "prefix": ".."}),
    ),
    RuleExample(
        "store-path-inside-volume",
        "spec.build.store.persistentVolumeClaim.path",
        "path must stay inside the volume",
        at("build.store.persistentVolumeClaim", {"claimName": "store", "path": "a/b"}),
        at("build.store.persistentVolumeClaim", {"claimName": "store", "path": "a/.."}),
    ),
    RuleExample(
        "input-below-sequence",
        "spec.engine.maxInputLen",
        "maxInputLen must be below maxSeqLen",
        at("engine", {"maxInputLen": 64, "maxSeqLen": 65}),
        at("engine", {"maxInputLen": 64, "maxSeqLen": 64}),
    ),
    RuleExample(
        "a-token-per-request",
        "spec.engine.maxNumTokens",
        "maxNumTokens must be at least maxBatchSize",
        at("engine", {"maxNumTokens": 8, "maxBatchSize": 8}),
        at("engine", {"maxNumTokens": 7, "maxBatchSize": 8}),
    ),
    RuleExample(
        "a-prompt-fits-a-step",
        "spec.engine.maxNumTokens",
        "maxNumTokens must be at least maxInputLen",
        at("engine", {"maxNumTokens": 64, "maxInputLen": 64}),
        at("engine", {"maxNumTokens": 63, "maxInputLen": 64}),
    ),
    RuleExample(
        "store-has-a-size",
        "spec.build.store.size",
        "size must be above zero",
        at("build.store.size", 1),
        at("build.store.size", "0Gi"),
    ),
    RuleExample(
        "build-timeout-in-seconds",
        "spec.build.timeout",
        "timeout must be at least 1s",
        at("build.timeout", "1s"),
        at("build.timeout", "999ms"),
    ),
    RuleExample(
        "progress-deadline-in-seconds",
        "spec.rollout.progressDeadline",
        "progressDeadline must be at least 1s",
        at("rollout.progressDeadline", "1m500ms"),
        at("rollout.progressDeadline", "500ms"),
    ),
    RuleExample(
        "places-are-spread-over-once",
        "spec.runtime.topologySpreadConstraints",
        "each topologyKey may have one constraint",
        at("runtime.topologySpreadConstraints", [{"topologyKey": "zone"}, {"topologyKey": "row"}]),
        at("runtime.topologySpreadConstraints", [{"topologyKey": "zone"}, {"topologyKey": "zone"}]),
    ),
    RuleExample(
        "recreate-has-no-surge",
        "spec.rollout.strategy",
        "strategy Recreate has no maxSurge and maxUnavailable",
        {"rollout": {"strategy": "Rolling", "maxSurge": 2}},
        {"rollout": {"strategy": "Recreate", "maxSurge": 2}},
    ),
    RuleExample(
        "canaries-have-steps",
        "spec.rollout.canary",
        "strategy Canary needs canary.steps",
        {"rollout": CANARY},
        {"rollout": {"strategy": "Canary"}},
    ),
    RuleExample(
        "canaries-keep-their-replicas",
        "spec.rollout.strategy",
        "strategy Canary and autoscaling that moves replicas",
        {"rollout": CANARY, "autoscaling": {"mode": "Recommend"}},
        {"rollout": CANARY, "autoscaling": {}},
    ),
    RuleExample(
        "canaries-try-no-encoders",
        "spec.rollout.strategy",
        "strategy Canary does not try encoders in pods of their own",
        {"rollout": CANARY},
        {"rollout": CANARY, "vision": {"placement": "Disaggregated"}},
    ),
    RuleExample(
        "without-a-surge-one-is-missing",
        "spec.rollout.maxSurge",
        "with maxSurge 0 no pod can be replaced",
        {"rollout": {"maxSurge": 0, "maxUnavailable": 1}},
        {"rollout": {"maxSurge": 0}},
    ),
    RuleExample(
        "adapters-are-distinguished",
        "spec.engine.lora",
        "adapters need names of their own",
        {"engine": {"backend": "TensorRT", "lora": adapters("a", "b")}},
        {"engine": {"backend": "TensorRT", "lora": adapters("a", "a")}},
    ),
    RuleExample(
        "build-jobs-stay-full-seconds",
        "spec.build.ttlAfterFinished",
        "ttlAfterFinished must be at least 1s",
        at("build.ttlAfterFinished", "1m500ms"),
        at("build.ttlAfterFinished", "500ms"),
    ),
    RuleExample(
        "requests-end-before-the-pod",
        "spec.rollout.drainTimeout",
        "drainTimeout must be at least 2s above gateway.requestTimeout",
        {"rollout": {"drainTimeout": "12s"}, "gateway": {"requestTimeout": "10s"}},
        {"rollout": {"drainTimeout": "11s999ms"}, "gateway": {"requestTimeout": "10s"}},
    ),
    RuleExample(
        "an-engine-runs-where-it-was-built",
        "spec.build.gpu.product",
        "build.gpu.product must equal runtime.gpu.product",
        {"build": {"gpu": {"product": "NVIDIA-L4"}}, "runtime": {"gpu": {"product": "NVIDIA-L4"}}},
        {"build": {"gpu": {"product": "NVIDIA-L4"}}, "runtime": {"gpu": {"product": "NVIDIA-L40"}}},
    ),
    RuleExample(
        "requests-within-limits",
        "spec.runtime.resources.requests",
        "every request must be at most the limit",
        at("runtime.resources", {"requests": {"cpu": "999m"}, "limits": {"cpu": 1}}),
        at("runtime.resources", {"requests": {"cpu": "1001m"}, "limits": {"cpu": 1}}),
    ),
    RuleExample(
        "gpus-are-counted",
        "spec.runtime.resources.limits",
        "limits name a GPU",
        at("runtime.resources", {"limits": {"cpu": 1, "example.com/nic": 1}}),
        at("runtime.resources", {"limits": {"nvidia.com/mig-3g.40gb": 1}}),
    ),
    RuleExample(
        "gpus-are-not-requested-twice",
        "spec.build.resources.requests",
        "requests name a GPU",
        at("build.resources", {"requests": {"cpu": 1}}),
        at("build.resources", {"requests": {"nvidia.com/gpu": 1}}),
    ),
    RuleExample(
        "turns-need-zero",
        "spec.runtime.gpu.slot",
        "models of a slot take turns, which neither KEDA nor a HorizontalPodAutoscaler knows",
        in_slot(),
        in_slot(autoscaling={"mode": "Enforce"}),
    ),
    RuleExample(
        "a-slot-has-no-second-pod",
        "spec.runtime.gpu.slot",
        "the GPU of a slot has no place for a second pod",
        in_slot(),
        in_slot(rollout={"strategy": "Rolling"}),
    ),
    RuleExample(
        "a-slot-has-no-encoders",
        "spec.runtime.gpu.slot",
        "the GPU of a slot has no place for encoders",
        in_slot(),
        in_slot(vision={"placement": "Disaggregated"}),
    ),
    RuleExample(
        "an-engine-runs-on-what-built-it",
        "spec.build.gpu.resourceName",
        "build.gpu.resourceName must equal runtime.gpu.resourceName",
        _ON_SLICES | {"build": {"gpu": {"resourceName": "nvidia.com/mig-1g.10gb"}}},
        _ON_SLICES | {"build": {"gpu": {"resourceName": "nvidia.com/gpu"}}},
    ),
    RuleExample(
        "every-taint-needs-exists",
        "spec.runtime.tolerations[0].operator",
        "a toleration without a key needs operator Exists",
        at("runtime.tolerations", [{"operator": "Exists"}]),
        at("runtime.tolerations", [{"value": "gpu"}]),
    ),
    RuleExample(
        "exists-takes-no-value",
        "spec.build.tolerations[0].value",
        "a toleration with operator Exists takes no value",
        at("build.tolerations", [{"key": "gpu", "value": "yes"}]),
        at("build.tolerations", [{"key": "gpu", "value": "yes", "operator": "Exists"}]),
    ),
    RuleExample(
        "toleration-seconds-of-no-execute",
        "spec.runtime.tolerations[0].tolerationSeconds",
        "tolerationSeconds needs effect NoExecute",
        at("runtime.tolerations", [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}]),
        at("runtime.tolerations", [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
    ),
    RuleExample(
        "node-labels-have-keys",
        "spec.runtime.nodeSelector",
        "every key of nodeSelector must be a label key",
        at("runtime.nodeSelector", {"nvidia.com/gpu.product": "H100"}),
        at("runtime.nodeSelector", {"gpu product": "H100"}),
    ),
    RuleExample(
        "pod-labels-have-keys",
        "spec.runtime.podLabels",
        "every key of podLabels must be a label key",
        at("runtime.podLabels", {"example.org/team": "a"}),
        at("runtime.podLabels", {"/team": "a"}),
    ),
    RuleExample(
        "own-labels-are-taken",
        "spec.runtime.podLabels",
        f"keys below {labels.PREFIX}/",
        at("runtime.podLabels", {"team": "a"}),
        at("runtime.podLabels", {labels.MODEL: "other"}),
    ),
    RuleExample(
        "fewest-below-most",
        "spec.autoscaling.minReplicas",
        "minReplicas must not be above maxReplicas",
        at("autoscaling", {"minReplicas": 1, "maxReplicas": 1}),
        at("autoscaling", {"minReplicas": 2, "maxReplicas": 1}),
    ),
    RuleExample(
        "the-operator-wakes",
        "spec.autoscaling.minReplicas",
        "minReplicas 0 needs engine Builtin",
        at("autoscaling", {"minReplicas": 0}),
        at("autoscaling", {"minReplicas": 0, "engine": "KEDA"}),
    ),
    RuleExample(
        "warm-replicas-are-never-idle",
        "spec.autoscaling.warmReplicas",
        "warmReplicas are kept without any request",
        at("autoscaling", {"maxReplicas": 2, "warmReplicas": 1, "objectives": [_LATENCY]}),
        at(
            "autoscaling",
            {"minReplicas": 0, "maxReplicas": 2, "warmReplicas": 1, "objectives": [_LATENCY]},
        ),
    ),
    RuleExample(
        "idle-for-a-minute",
        "spec.autoscaling.scaleToZeroAfter",
        "scaleToZeroAfter must be at least 1m",
        at("autoscaling.scaleToZeroAfter", "1m"),
        at("autoscaling.scaleToZeroAfter", "59s"),
    ),
    RuleExample(
        "the-load-needs-a-replica",
        "spec.autoscaling.warmReplicas",
        "warmReplicas must be below maxReplicas",
        at("autoscaling", {"maxReplicas": 3, "warmReplicas": 2, "objectives": [_LATENCY]}),
        at("autoscaling", {"maxReplicas": 2, "warmReplicas": 2, "objectives": [_LATENCY]}),
    ),
    RuleExample(
        "there-is-something-to-follow",
        "spec.autoscaling.objectives",
        "there is nothing to follow",
        at("autoscaling", {"maxReplicas": 2, "mode": "Off"}),
        at("autoscaling", {"maxReplicas": 2}),
    ),
    RuleExample(
        "one-objective-per-metric",
        "spec.autoscaling.objectives",
        "each metric may have one objective",
        at("autoscaling", {"objectives": [_LATENCY], "prometheus": _PROMETHEUS}),
        at("autoscaling", {"objectives": [_LATENCY, _LATENCY], "prometheus": _PROMETHEUS}),
    ),
    RuleExample(
        "fallback-stays-below-most",
        "spec.autoscaling.fallback",
        "fallback.replicas must not be above maxReplicas",
        at("autoscaling", {"fallback": {"replicas": 1}}),
        at("autoscaling", {"fallback": {"replicas": 2}}),
    ),
    RuleExample(
        "series-have-labels",
        "spec.autoscaling.prometheus.matchLabels",
        "every name in matchLabels must be a Prometheus label",
        at("autoscaling.prometheus", {**_PROMETHEUS, "matchLabels": {"cluster": "a"}}),
        at("autoscaling.prometheus", {**_PROMETHEUS, "matchLabels": {"kubernetes.io/name": "a"}}),
    ),
    RuleExample(
        "encoders-have-pods",
        "spec.vision.replicas",
        "replicas and resources are those of encoders in pods of their own",
        {"vision": {"placement": "Disaggregated", "replicas": 2}},
        {"vision": {"replicas": 2}},
    ),
    RuleExample(
        "a-share-of-threads-needs-mps",
        "spec.vision.threadPercentage",
        "threadPercentage is a share under MPS",
        {"engine": {"backend": "TensorRT"}, "vision": {"sharing": "MPS", "threadPercentage": 30}},
        {
            "engine": {"backend": "TensorRT"},
            "vision": {"sharing": "TimeSlicing", "threadPercentage": 30},
        },
    ),
)

UNSUPPORTED_VALUES: Mapping[str, object] = {
    "engine.guidedDecoding": "On",
    "model.family": "gemma3",
    **{f"engine.parallelism.{name}": 2 for name in ("tensor", "pipeline", "expert")},
    "engine.quantization": "FP8",
    "engine.kvCache.freeGpuMemoryFraction": "0.85",
    "engine.kvCache.crossFraction": "0.5",
    "engine.kvCache.reuseBytes": "4Gi",
    "engine.lora": [{"name": "a", "source": SMALLEST_SPEC["model"]["source"]}],
    "engine.extraArgs": ["--enforce-eager"],
    "engine.maxBeamWidth": 2,
    "engine.plugins": {"gemm_plugin": "float16"},
    "engine.extraBuildArgs": ["--fast-build"],
    "engine.extraLlmApiOptions": {"stream_interval": 4},
    "vision.engine": "TensorRT",
    "vision.maxBatchSize": 4,
    **{f"runtime.memoryPools.{name}": "1Gi" for name in ("cuda", "pinned")},
    "runtime.streaming": False,
    "runtime.accumulateTokens": True,
    "runtime.blsInstances": 2,
    "runtime.vllmVersion": "0.26.0",
    "runtime.gpu.count": 2,
    **{f"{pod}.gpu.memory": "80Gi" for pod in ("build", "runtime")},
    **{f"{pod}.gpu.computeCapability": "9.0" for pod in ("build", "runtime")},
    **{f"{pod}.gpu.resourceName": "nvidia.com/gpu" for pod in ("build", "runtime")},
    "runtime.gpu.deviceClassName": "gpu.nvidia.com",
    "runtime.gpu.deviceSelectors": ["true"],
    "build.trtllmVersion": "0.20.0",
    "build.evaluation": "Off",
    "vision.sharing": "MPS",
    "vision.threadPercentage": 25,
    "vision.placement": "Disaggregated",
    "runtime.triton.expose": True,
    "runtime.triton.maxQueueDelayMicroseconds": 20_000,
    "runtime.triton.enableChunkedContext": True,
    "runtime.triton.preprocessingInstanceCount": 2,
    "runtime.triton.postprocessingInstanceCount": 2,
}
"""For every row of the table of unsupported fields a value that it refuses."""


def refused_by(row: Unsupported) -> dict[str, Any]:
    """Return a spec with a value that a row of the table refuses, on a backend of the row."""
    value = UNSUPPORTED_VALUES[row.path]
    if row.path == "vision.engine" and "Torch" not in row.allowed:  # less than others
        value = "Torch"
    elif row.path == "model.family":  # a row for each family
        value = next(name for name in FAMILIES if name not in row.allowed)
    spec = at(row.path, value)
    if not row.backends or "Reference" in row.backends:
        return spec
    return merged(at("engine.backend", row.backends[0]), spec)
