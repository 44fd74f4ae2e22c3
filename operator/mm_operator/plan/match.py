"""Can the pods that are planned load the engine that was built? Checked before any of them starts.

TensorRT engines run on one compute capability and with one version of TensorRT-LLM. Both were
planned for and are part of the fingerprint; what the manifest says is what the builder's image and
node really were, and it counts also for an engine that was found in a store or imported.
"""

from collections.abc import Iterator
from dataclasses import replace

from mm_api.conditions import Reason
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildResult
from mm_operator.model import BuildDecision, Step

TRTLLM = "tensorrt_llm"
"""Name of TensorRT-LLM among a manifest's versions."""


def with_match(decision: BuildDecision, plan: BuildPlan, engine_config: str) -> BuildDecision:
    """Return the decision, or a refusal of an engine that the planned pods could not load.

    The result stays recorded: other models judge it by their own plan, which is the same.
    """
    if decision.step is not Step.DONE or decision.result is None:
        return decision
    found = "; ".join(mismatches(plan, decision.result))
    if not found:
        return decision
    return replace(
        decision,
        step=Step.FAILED,
        reason=Reason.ENGINE_MISMATCH,
        message=f"the engine cannot be served as planned: {found}\n"
        "give build and serving the same image and GPU (spec.build, spec.runtime), then delete "
        f"ConfigMap {engine_config} and the engine in the store to build it again",
        phase="Failed",
    )


def mismatches(plan: BuildPlan, result: BuildResult) -> Iterator[str]:
    """Yield what keeps the engine from being loaded, each as a sentence."""
    planned = plan.trtllm
    if planned is None:
        return
    built = result.gpu
    if built is not None and built.compute_capability != planned.gpu.compute_capability:
        yield (
            f"it was built on {built.product} with compute capability {built.compute_capability}, "
            f"and pods run on {planned.gpu.product} with {planned.gpu.compute_capability}"
        )
    version = result.versions.get(TRTLLM)
    if version is not None and version != planned.version:
        yield (f"it was built by TensorRT-LLM {version}, and pods serve with {planned.version}")
