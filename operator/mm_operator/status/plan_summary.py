"""`status.plan` from the numbers of a plan."""

from typing import Any

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
        server_limit_bytes=memory.host.planned_limit_bytes,
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
    memory = plan.memory
    parts: list[Any] = [*memory.per_gpu] or [memory.host]
    gpus, vision = memory.per_gpu, ("vision_engine_bytes", "vision_activation_bytes")
    terms = {"pinned_pool_bytes": memory.pinned_pool_bytes, "shm_bytes": memory.shm_bytes}
    terms |= {
        f"{name}_bytes": sum(getattr(one, f"{name}_bytes") for one in parts)
        for name in ("weights", "prompt_table", "kv_cache")
    }
    if not gpus:
        terms |= {"vision_bytes": memory.host.vision_bytes, "cuda_pool_bytes": plan.pool.bytes}
    else:
        terms["vision_bytes"] = sum(getattr(gpu, name) for gpu in gpus for name in vision)
        for name in ("cuda_pool_bytes", "context_bytes", "other_bytes"):
            terms[name] = sum(getattr(gpu, name) for gpu in gpus)
    return MemoryStatus(**terms, total_bytes=sum(terms.values()))
