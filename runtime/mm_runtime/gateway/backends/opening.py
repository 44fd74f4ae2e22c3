"""Triton's client for an engine; it takes 0.2 s of a pod's start to import."""

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.base.trtllm_names import has_newer_names
from mm_runtime.gateway.backends.triton import TritonEngine
from mm_runtime.gateway.backends.triton_inputs import NEWER_NAMES, OLDER_NAMES
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.tokens import TextCodec


def open_triton(directory: EngineDirectory, serving: ServingPlan, address: str) -> TritonEngine:
    """Return the engine behind Triton's gRPC endpoint, host:port; no request is sent yet.

    Raises:
        OSError, ValueError: the engine's tokenizer is missing or unusable.
    """
    build = directory.manifest.plan.trtllm
    newer = build is not None and has_newer_names(build.version)
    codec = TextCodec(directory.tokenizer)
    return TritonEngine(
        address,
        codec.decode,
        codec=codec,
        names=NEWER_NAMES if newer else OLDER_NAMES,
        reuses=serving.reuse_bytes is not None,
        salts_text=serving.kv_cache is None or not serving.kv_cache.reuse,
    )
