"""The published document of a plan, as `mmctl plan` prints it."""

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.model_plan import ModelPlan, PlanError, PlannedLimits
from mm_api.families import FAMILIES
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.bottleneck import estimated
from mm_operator.plan.engine.encoders import is_disaggregated
from mm_operator.plan.engine.plan import Refusal, plan_engine
from mm_operator.plan.engine.request import Inputs


def model_plan(inputs: Inputs) -> ModelPlan:
    """Return the plan; what is wrong is in its `errors`, never raised."""
    planned, split = plan_engine(inputs), inputs.spec.engine.parallelism
    head = ModelPlan(
        model=inputs.model,
        family=inputs.facts.family,
        backend=inputs.spec.engine.backend,
        gpu=inputs.gpu,
        tensor_parallel=split.tensor if inputs.gpu else 1,
        pipeline_parallel=split.pipeline if inputs.gpu else 1,
        trtllm_version=planned.trtllm_version,
    )
    if isinstance(planned, Refusal):
        errors = [
            PlanError(path=one.path, code=one.reason, message=one.message)
            for one in planned.problems
        ]
        return head.model_copy(update={"errors": errors})
    engine, commands = planned.build_plan.engine, planned.build_plan.trtllm
    return head.model_copy(
        update={
            "dtype": engine.dtype,
            "fingerprint": planned.build_plan.fingerprint,
            "limits": _limits(planned),
            "convert": commands.convert if commands else None,
            "engines": commands.engines if commands else [],
            "serve": planned.serving_plan.trtllm_serve,
            "vllm": planned.serving_plan.vllm_serve,
            "memory": planned.memory,
            "pool": planned.pool if inputs.spec.engine.traits.supervised else None,
            "fit": planned.fit,
            "evaluation": planned.evaluation,
            "bottleneck": _bottleneck(inputs, engine.vision),
            "reasons": list(planned.reasons),
            "warnings": list(planned.warnings),
            "build_plan": planned.build_plan,
            "serving_plan": planned.serving_plan,
        }
    )


def _bottleneck(inputs: Inputs, vision: VisionPlan | None) -> str | None:
    if vision is None or not is_disaggregated(inputs.spec):
        return None
    return estimated(inputs.facts, FAMILIES[inputs.facts.family], vision.features_per_image)


def _limits(planned: EnginePlan) -> PlannedLimits:
    limits, vision = planned.build_plan.engine.limits, planned.build_plan.engine.vision
    return PlannedLimits(
        features_per_image=vision.features_per_image if vision else 0,
        max_encoder_input_len=limits.max_encoder_input_len or 0,
        vision_max_batch_size=vision.max_batch_size if vision else 0,
        **limits.model_dump(exclude={"max_encoder_input_len"}),
    )
