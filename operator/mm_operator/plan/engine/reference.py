"""The same document for the Reference engine, which is planned by `mm_operator.plan.draft`."""

from mm_api.conditions import Reason as ConditionReason
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import (
    Fit,
    HostMemory,
    MemoryPlan,
    ModelPlan,
    PlanError,
    PlannedLimits,
    PoolPlan,
    Reason,
    ServingLimits,
)
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.errors import SpecError
from mm_operator.plan.draft import ReferenceDraft, draft
from mm_operator.plan.engine.exposure import exposure_warnings
from mm_operator.plan.engine.family import family_of
from mm_operator.plan.engine.gateway_limit import gateway_limit_warnings
from mm_operator.plan.memory import DTYPE_BYTES


def plan_reference(
    *, model: str, spec: MultimodalModelSpec, facts: ModelFacts, builder_version: str
) -> ModelPlan:
    """Return the plan; what is wrong is in its `errors`, what does not fit in its `fit`."""
    empty = ModelPlan(model=model, family=facts.family, backend="Reference")
    try:
        planned = draft(model=model, spec=spec, facts=facts, builder_version=builder_version)
    except SpecError as error:
        if error.reason != ConditionReason.DOES_NOT_FIT:
            problem = PlanError(path=error.path, code=error.reason, message=error.message)
            return empty.model_copy(update={"errors": [problem]})
        return _too_big(empty, spec, facts, builder_version, str(error))
    return _planned(empty, spec, facts, planned)


def _too_big(
    empty: ModelPlan, spec: MultimodalModelSpec, facts: ModelFacts, version: str, message: str
) -> ModelPlan:
    """Return the plan without the memory limit, and the verdict about it."""
    runtime = spec.runtime
    limits = {key: value for key, value in runtime.resources.limits.items() if key != "memory"}
    resources = runtime.resources.model_copy(update={"limits": limits})
    loose = spec.model_copy(update={"runtime": runtime.model_copy(update={"resources": resources})})
    planned = draft(model=empty.model, spec=loose, facts=facts, builder_version=version)
    short = planned.footprint.host_bytes - bytes_of(runtime.resources.limits["memory"])
    plan = _planned(empty, spec, facts, planned)
    fit = Fit(
        verdict="DoesNotFit", short_bytes=short, largest_term=_largest(planned), message=message
    )
    return plan.model_copy(update={"fit": fit})


def _largest(planned: ReferenceDraft) -> str:
    terms = {
        "weights": planned.footprint.weights_bytes,
        "vision": planned.footprint.vision_bytes,
        "prompt table": planned.footprint.prompt_table_bytes,
        "KV cache": planned.footprint.kv_cache_bytes,
        "feature cache": planned.footprint.feature_cache_bytes,
    }
    return max(terms, key=lambda name: terms[name])


def _planned(
    empty: ModelPlan, spec: MultimodalModelSpec, facts: ModelFacts, planned: ReferenceDraft
) -> ModelPlan:
    engine, serving = planned.build_plan.engine, planned.serving_plan
    limits, vision, size = engine.limits, engine.vision, planned.footprint
    memory_limit = spec.runtime.resources.limits.get("memory")
    per_token = 2 * facts.text.layers * facts.text.key_value_heads * facts.text.head_size
    features = vision.features_per_image if vision else 0
    cap, queue = serving.gateway.max_concurrency, serving.max_queue_size
    queued = limits.max_batch_size + queue if queue else cap
    return empty.model_copy(
        update={
            "dtype": engine.dtype,
            "fingerprint": planned.build_plan.fingerprint,
            "warnings": [
                *exposure_warnings(spec, spec.runtime.image),
                *gateway_limit_warnings(spec, serving.gateway),
            ],
            "limits": PlannedLimits(
                features_per_image=features,
                max_encoder_input_len=limits.max_encoder_input_len or 0,
                vision_max_batch_size=vision.max_batch_size if vision else 0,
                **limits.model_dump(exclude={"max_encoder_input_len"}),
            ),
            "memory": MemoryPlan(
                per_gpu=[],
                host=HostMemory(
                    weights_bytes=size.weights_bytes,
                    vision_bytes=size.vision_bytes,
                    prompt_table_bytes=size.prompt_table_bytes,
                    kv_cache_bytes=size.kv_cache_bytes,
                    feature_cache_bytes=size.feature_cache_bytes,
                    total_bytes=size.host_bytes,
                    limit_bytes=None if memory_limit is None else bytes_of(memory_limit),
                ),
                encoder=planned.encoder,
                kv_bytes_per_token=per_token * DTYPE_BYTES[engine.dtype],
                cross_kv_bytes_per_token=0,
                kv_cache_free_gpu_memory_fraction=0,
                kv_pool_bytes=size.kv_cache_bytes,
                full_length_sequences=limits.max_batch_size,
                pinned_pool_bytes=serving.pools.pinned_bytes,
                shm_bytes=serving.pools.shm_bytes,
            ),
            "pool": PoolPlan(
                table_bytes_per_request=planned.output_bytes,
                copies=1,
                live_requests=min(cap, queued) + limits.max_batch_size,
                factor=family_of(facts.family).pool_factor,
                bytes=serving.pools.cuda_bytes,
                bounded_by="GatewayConcurrency" if cap <= queued else "ExecutorQueue",
            ),
            "serving": ServingLimits(
                gateway_concurrency=cap,
                triton_queue_size=queue,
                triton_max_batch_size=limits.max_batch_size,
                template={},
            ),
            "fit": Fit(
                verdict="Fits",
                short_bytes=0,
                largest_term=_largest(planned),
                message=f"{size.host_bytes:,} bytes of host memory are needed",
            ),
            "reasons": [
                Reason(field=choice.field, value=choice.value, reason=choice.reason)
                for choice in planned.choices
            ],
            "build_plan": planned.build_plan,
            "serving_plan": serving,
        }
    )
