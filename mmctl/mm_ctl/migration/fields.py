"""What becomes of fields that trtllm-serve's PyTorch backend has no use for, as two tables.

What the API refuses on that backend is in `mm_api.v1alpha1.unsupported`; here is only what each of
those rows means for users, and what the API accepts and the backend does not use.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mm_api.backends import PYTORCH
from mm_api.v1alpha1.unsupported import UNSUPPORTED
from mm_ctl.migration.change import Change, Effect, value_at

_REFUSED: Final[Mapping[str, tuple[Effect, str]]] = {
    "vision.sharing": (Effect.SERVER, "one process encodes and generates: there is no sharing"),
    "vision.threadPercentage": (Effect.SERVER, "one process encodes and generates"),
    "vision.imagesPerSecond": (Effect.SERVER, "one process encodes and generates"),
    "vision.placement": (Effect.LOST, "images are encoded in the language model's pods"),
    "runtime.triton.expose": (Effect.LOST, "no Triton runs: clients use the OpenAI address"),
}
"""Fields that the API refuses on PyTorch, with what their removal means."""


@dataclass(frozen=True, slots=True)
class Unused:
    """A field that the API accepts and the backend does not use.

    Attributes:
        path: below `spec`.
        effect: what its removal means.
        why: as a sentence.
        default: what it is where nothing was wanted; such a value stays.
    """

    path: str
    effect: Effect
    why: str
    default: Any = None


_TRITON: Final = "of Triton's models, and no Triton runs"
_BUILT: Final = "for trtllm-build, which does not run: nothing is built"
_UNUSED: Final = (
    Unused(
        "engine.maxBeamWidth", Effect.LOST, "beam search is planned for engines only", default=1
    ),
    Unused(
        "engine.maxVideoFrames",
        Effect.LOST,
        "only Qwen2-VL and Qwen2.5-VL are given videos, by 1.2 and newer: set it again for those",
    ),
    Unused(
        "engine.lora",
        Effect.LOST,
        "no class on PyTorch of a family with engines applies adapters: names of some get 404",
        default=[],
    ),
    Unused("engine.plugins", Effect.BUILD, _BUILT, default={}),
    Unused("engine.extraBuildArgs", Effect.BUILD, _BUILT, default=[]),
    Unused("engine.kvCache.crossFraction", Effect.LIMIT, "trtllm-serve divides its cache"),
    Unused("vision.replicas", Effect.SERVER, "no pod encodes only", default=1),
    Unused("vision.resources", Effect.SERVER, "no pod encodes only", default={}),
    Unused(
        "vision.featureCacheBytes",
        Effect.SERVER,
        "trtllm-serve keeps no features of images",
        default=0,
    ),
    Unused("runtime.memoryPools.cuda", Effect.SERVER, _TRITON, default="Auto"),
    Unused("runtime.memoryPools.pinned", Effect.SERVER, _TRITON, default="Auto"),
    Unused("runtime.streaming", Effect.SERVER, f"{_TRITON}; the gateway streams", default=True),
    Unused("runtime.accumulateTokens", Effect.SERVER, _TRITON, default=False),
    Unused("runtime.blsInstances", Effect.SERVER, _TRITON),
    Unused("runtime.triton.allowFrom", Effect.SERVER, _TRITON, default=[]),
)


def refused(spec: Mapping[str, Any]) -> Iterator[Change]:
    """Yield a change for each field that the API refuses on PyTorch alone."""
    for row in UNSUPPORTED:
        value = value_at(spec, row.path)
        if PYTORCH.name not in row.backends or value in (None, [], {}) or value in row.allowed:
            continue
        effect, why = _REFUSED.get(row.path, (Effect.LOST, row.message))
        yield Change(row.path, value, row.allowed[0] if row.allowed else None, effect, why)


def unused(spec: Mapping[str, Any]) -> Iterator[Change]:
    """Yield a change for each field that the backend does not use."""
    for row in _UNUSED:
        value = value_at(spec, row.path)
        if value is not None and value != row.default:
            yield Change(row.path, value, None, row.effect, row.why)
