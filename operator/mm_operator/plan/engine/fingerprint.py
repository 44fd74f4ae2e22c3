"""Which engines are equal: the digest of everything that decides an engine's bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from mm_api.documents.build_plan import BuildPlan, EngineSpec
from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.trtllm_build import TrtllmBuild
from mm_operator.digests import digest, plain

_STAGED = ("sourceDigest", "family", "backend", "builderVersion")
"""What the files of a staged checkpoint depend on."""


def engine_fingerprint(
    engine: EngineSpec,
    trtllm: TrtllmBuild | None = None,
    lora: Sequence[LoraAdapter] | None = None,
) -> str:
    """Return the fingerprint of an engine: everything that changes its bytes, and nothing else.

    How much memory the GPU has decides whether a plan fits, not what is built; and an adapter is
    known by its digest, wherever it lies.
    """
    kept = {"lora": [_known(plain(one)) for one in lora]} if lora else {}
    if engine.traits.stages:
        # The checkpoint is kept as it is: limits and types are flags of the server.
        staged = {name: plain(engine)[name] for name in _STAGED}
        staged |= {"vision": plain(engine)["vision"]} if engine.disaggregated_encoders else {}
        return digest(staged | kept)
    if trtllm is None:
        return digest(plain(engine) | kept)
    commands = plain(trtllm)
    del commands["gpu"]["memoryBytes"]
    # Beside the engine, which is the same with and without: engines that were built before stay.
    commands.pop("tokenizerInfo", None)
    commands["lora"] = [_known(adapter) for adapter in commands["lora"]]
    return digest({**plain(engine), "trtllm": commands})


def fingerprint_of(plan: BuildPlan) -> str:
    """Return the fingerprint that follows from a plan, whatever fingerprint stands in it."""
    return engine_fingerprint(plan.engine, plan.trtllm, plan.lora)


def _known(adapter: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in adapter.items() if name != "source"}
