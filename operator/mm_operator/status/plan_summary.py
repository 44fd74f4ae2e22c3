"""`status.plan` from the numbers of a plan."""

from mm_api.modalities import planned
from mm_api.v1alpha1 import MemoryStatus, PlanStatus
from mm_operator.model import EnginePlan

_WARNINGS = 16
"""As many as the status holds."""


_COLUMN_DIGITS = 12
"""`kubectl get -o wide` stays below 160 columns with them, and they distinguish all there is."""


def plan_summary(plan: EnginePlan, serving_hash: str) -> PlanStatus:
    """Return the summary; `serving_hash` is empty while nothing may be served."""
    facts, engine, memory, fit = (
        plan.build_plan.facts,
        plan.build_plan.engine,
        plan.memory,
        plan.fit,
    )
    on_gpu = bool(memory.per_gpu)
    return PlanStatus(
        family=facts.family,
        dtype=engine.dtype,
        trtllm_version=plan.trtllm_version,
        source_digest=facts.source_digest,
        source_revision=facts.source_revision,
        fingerprint=plan.build_plan.fingerprint,
        short_fingerprint=plan.build_plan.fingerprint[:_COLUMN_DIGITS],
        serving_hash=serving_hash or None,
        short_serving_hash=serving_hash[:_COLUMN_DIGITS] or None,
        parameters=facts.parameters,
        features_per_image=engine.vision.features_per_image if engine.vision else None,
        input_modalities=planned(plan.build_plan, plan.serving_plan.gateway),
        max_concurrency=plan.serving_plan.gateway.max_concurrency,
        limits=engine.limits,
        gpu=plan.gpu,
        memory=_memory(plan),
        encoder_memory=memory.encoder,
        gpu_memory=memory.per_gpu,
        kv_cache_free_gpu_memory_fraction=(
            memory.kv_cache_free_gpu_memory_fraction if on_gpu else None
        ),
        cross_kv_cache_fraction=memory.cross_kv_cache_fraction,
        pool=plan.pool,
        evaluation=plan.evaluation,
        fits=plan.fits,
        verdict=fit.verdict,
        short_bytes=fit.short_bytes or None,
        largest_term=fit.largest_term,
        suggestions=fit.suggestions,
        warnings=[warning.message for warning in plan.warnings][:_WARNINGS],
    )


def _memory(plan: EnginePlan) -> MemoryStatus:
    """Return the terms of one replica: of its GPUs together, or of host memory."""
    memory, host = plan.memory, plan.memory.host
    bounds = {
        "pinned_pool_bytes": memory.pinned_pool_bytes,
        "shm_bytes": memory.shm_bytes,
    }
    if host is not None and not memory.per_gpu:
        terms = {
            "weights_bytes": host.weights_bytes,
            "vision_bytes": host.vision_bytes,
            "prompt_table_bytes": host.prompt_table_bytes,
            "kv_cache_bytes": host.kv_cache_bytes,
            "cuda_pool_bytes": plan.pool.bytes,
            **bounds,
        }
    else:
        gpus = memory.per_gpu
        terms = {
            "weights_bytes": sum(gpu.weights_bytes for gpu in gpus),
            "vision_bytes": sum(
                gpu.vision_engine_bytes + gpu.vision_activation_bytes for gpu in gpus
            ),
            "prompt_table_bytes": sum(gpu.prompt_table_bytes for gpu in gpus),
            "kv_cache_bytes": sum(gpu.kv_cache_bytes for gpu in gpus),
            "cuda_pool_bytes": sum(gpu.cuda_pool_bytes for gpu in gpus),
            "context_bytes": sum(gpu.context_bytes for gpu in gpus),
            "other_bytes": sum(gpu.other_bytes for gpu in gpus),
            **bounds,
        }
    return MemoryStatus(**terms, total_bytes=sum(terms.values()))
