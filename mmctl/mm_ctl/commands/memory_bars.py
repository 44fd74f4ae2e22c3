"""PURE: planned memory as bars, one for each GPU and container, for `mmctl plan` and `ui`.

A bar is `{"name", "parts": [[what, bytes]], "limit"}`; limit None: nothing states one.
"""

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from mm_operator.plan.engine.suggestions import TERMS

_FIELDS = {
    **TERMS,
    "vision_bytes": "vision engine",
    "feature_cache_bytes": "cache of image features",
    "pinned_pool_bytes": "pinned pool",
    "shm_bytes": "shared memory",
    "step_bytes": "activations",
    "loading_bytes": "copies of weights while loading",
    "process_bytes": "processes",
}
"""Field of a record -> what people call it."""
PARTS = tuple(dict.fromkeys(_FIELDS.values()))


def bars_of(plan: Mapping[str, Any], stated_limit: int | None = None) -> list[dict[str, Any]]:
    """Return the bars of `status.plan`, or of a ModelPlan as JSON.

    `stated_limit`: memory limit of the server's container in the spec, in bytes.
    """
    memory = plan.get("memory") or {}
    gpus = plan.get("gpuMemory") or memory.get("perGpu") or ()
    bars = [_bar(f"server, GPU {gpu['rank']}", gpu, gpu["gpuMemoryBytes"]) for gpu in gpus]
    host = memory.get("host") or {}
    if host or not gpus:  # of a server on a GPU the status has the limit alone
        planned = host.get("limitBytes") or host.get("plannedLimitBytes")
        limit = stated_limit or planned or plan.get("serverLimitBytes")
        bars.append(_bar("server, host memory", {**memory, **host}, limit))
    encoder = plan.get("encoderMemory") or memory.get("encoder") or {}
    on_gpu = encoder.get("contextBytes") is not None
    planned = encoder.get("limitBytes") or encoder.get("plannedLimitBytes")
    limit = (plan.get("gpu") or {}).get("memoryBytes") if on_gpu else planned
    bars.append(_bar(f"encoder, {'GPU' if on_gpu else 'host memory'}", encoder, limit))
    return [bar for bar in bars if bar["parts"]]


def _bar(name: str, record: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    found = ((text, record.get(to_camel(field))) for field, text in _FIELDS.items())
    return {"name": name, "parts": [[text, size] for text, size in found if size], "limit": limit}
