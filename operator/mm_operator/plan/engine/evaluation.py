"""What a plan says of comparisons with the checkpoint: their cost, and where one is left out."""

from collections.abc import Iterator

from mm_api.documents.build_plan import EngineSpec
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import EvaluationCost, PlanWarning
from mm_api.evaluation import evaluation_cost
from mm_api.v1alpha1 import MultimodalModelSpec

_MIB = 1 << 20


def with_evaluation(engine: EngineSpec, facts: ModelFacts, spec: MultimodalModelSpec) -> EngineSpec:
    """Return the engine, without answers of the checkpoint where the spec switches them off.

    Only an engine that would have them is another one without.
    """
    if spec.build.evaluation == "Off" and evaluation_cost(engine, facts) is not None:
        return engine.model_copy(update={"evaluation": "Off"})
    return engine


def class_warnings(facts: ModelFacts) -> Iterator[PlanWarning]:
    """Yield a warning where the inspection has not looked at the checkpoint's class."""
    if facts.uncompared:
        yield PlanWarning(
            code="ClassNotCompared",
            message="weights and config.json are not compared with the checkpoint's class: "
            + facts.uncompared,
        )


def evaluation_warnings(
    cost: EvaluationCost | None, spec: MultimodalModelSpec
) -> Iterator[PlanWarning]:
    """Yield a warning where a build computes no answers, although the spec leaves them on."""
    if cost is None:
        if spec.build.evaluation != "Off":
            yield PlanWarning(
                code="EvaluationUnavailable",
                message="a build cannot run this checkpoint on the processor: pods will not be "
                "compared with it, and any answer makes them Ready. Set spec.build.evaluation to "
                "Off to say that this is intended",
            )
        return
    limit = spec.build.resources.memory_limit
    if limit is None or limit >= cost.memory_bytes:
        return
    yield PlanWarning(
        code="EvaluationSkipped",
        message=f"spec.build.resources.limits.memory is {limit // _MIB}Mi, and the checkpoint's "
        f"own answers take {-(-cost.memory_bytes // _MIB)}Mi to compute: pods will not be compared "
        "with the checkpoint. Raise the limit, or set spec.build.evaluation to Off",
    )
