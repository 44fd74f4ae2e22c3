"""MultimodalModel documents, right and wrong, that several kinds of tests go through."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mm_api import labels
from mm_api.families import FAMILIES
from mm_api.v1alpha1.definition import Unsupported
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


RULE_EXAMPLES = (
    *(
        RuleExample(name, f"spec.{part}.{field}", text, {part: good}, {part: bad})
        for part, rules in (("gateway", GATEWAY_RULES), ("autoscaling", METRIC_RULES))
        for name, field, text, good, bad in rules
    ),
    *(RuleExample(*example) for example in DEVICE_RULES),
    *(
        RuleExample(**row)
        for row in yaml.safe_load(Path(__file__).with_name("rule_examples.yaml").read_text())
    ),
)

UNSUPPORTED_VALUES: Mapping[str, object] = {
    "engine.guidedDecoding": "Off",
    "vision.gpu": {"count": 0},
    "model.family": "gemma3",
    **{f"engine.parallelism.{name}": 2 for name in ("tensor", "pipeline", "expert", "nodes")},
    "engine.quantization": "FP8",
    "engine.kvCache.freeGpuMemoryFraction": "0.85",
    "engine.kvCache.crossFraction": "0.5",
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
