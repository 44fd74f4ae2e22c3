"""What has no meaning where a checkpoint's own class and processor run in one process."""

from collections.abc import Iterator

from mm_api.conditions import Reason as ConditionReason
from mm_api.documents.model_plan import PlanWarning
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.errors import SpecError
from mm_operator.plan.engine.target import Target


def check_own_processor(target: Target, *, on_gpu: bool) -> Iterator[SpecError]:
    """Yield an error for each field that would change nothing, and for a GPU."""
    if target.family.has_tower:
        return
    vision, gpu = target.spec.vision, target.spec.runtime.gpu.count
    unread = {
        "spec.vision.engine": (vision.engine != "ONNXRuntime", "remove the field"),
        "spec.vision.maxBatchSize": (vision.max_batch_size is not None, "remove the field"),
        "spec.vision.featureCacheBytes": (bytes_of(vision.feature_cache_bytes) > 0, "set it to 0"),
        "spec.vision.placement": (vision.placement == "Disaggregated", "set it to Colocated"),
        "spec.runtime.gpu.count": (on_gpu or gpu > 0, "set it to 0"),
    }
    for path, (requested, advice) in unread.items():
        if requested:
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                f"family {target.family.name} runs the checkpoint's own class on the processor, "
                f"images included: {advice}",
                path,
            )


def estimates(target: Target) -> tuple[PlanWarning, ...]:
    """Return the warning that figures of such a checkpoint are estimates."""
    vision = target.facts.vision
    if vision is None or target.family.has_tower or target.family.layout.rows_of_image is not None:
        return ()
    message = (
        f"no record describes {target.facts.architecture}: that an image becomes "
        f"{vision.features_per_image} tokens, and what its tower takes, are estimates from "
        "config.json. Requests are decoded one after another; prompts beyond maxInputLen are "
        "refused when their tokens are known"
    )
    return (PlanWarning(code="Estimates", message=message),)
