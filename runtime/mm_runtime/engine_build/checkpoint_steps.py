"""PURE: the steps that bring a checkpoint, compare it and keep its answers, for every backend."""

from collections.abc import Iterator

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_api.documents.evaluation import EVALUATION_NAME
from mm_api.documents.model_facts import ModelFacts
from mm_api.evaluation import evaluation_cost
from mm_api.families import FAMILIES
from mm_runtime.engine_build.step import Step, module_step
from mm_runtime.errors import PermanentError


def checkpoint_steps(plan: BuildPlan, *folders: str, unpickles: bool = True) -> Iterator[Step]:
    """Yield what copies the checkpoint, and turns pickles into safetensors.

    `folders`: where its files lie afterwards, weights in the first. `unpickles`: pickled weights
    are turned, else left for a tool that reads them.

    Raises:
        PermanentError: the weights are pickles, and the plan does not allow them.
    """
    pickled = plan.facts.weight_format == "pickle"
    if pickled and not plan.allow_pickle:
        raise PermanentError(
            "The weights are pickles, which can run code, and the plan does not allow them: use"
            " safetensors, or set spec.model.allowPickle."
        )
    yield module_step(
        plan,
        "fetch",
        "copy the checkpoint and compare its digest with the plan's",
        outputs=(*folders, "pickles", "fetched.json"),
        permanent_reason=BuildReason.SOURCE_NOT_FOUND,
    )
    if pickled and unpickles:
        yield module_step(
            plan,
            "unpickle",
            "turn pickled weights into safetensors",
            inputs=("pickles",),
            outputs=folders[:1],
        )


def weights_steps(plan: BuildPlan, folder: str) -> Iterator[Step]:
    """Yield what compares all weights with their class, before an engine is made."""
    if has_class(plan.facts):
        yield module_step(
            plan,
            "verify-weights",
            "compare the names and shapes of all weights with the checkpoint's class",
            inputs=(folder,),
        )


def vision_steps(plan: BuildPlan, folder: str) -> Iterator[Step]:
    """Yield what compares all weights with their class, then exports and verifies the tower."""
    built = plan.engine.vision is not None and plan.engine.vision.tensorrt is not None
    yield module_step(
        plan,
        "export-vision",
        "compare all weights with their class, export the vision half, keep its answers",
        inputs=(folder,),
        outputs=("engine/vision", "reference.npz", *(["exported"] if built else [])),
    )
    if built:
        yield module_step(
            plan,
            "build-vision",
            "build a TensorRT engine of the exported vision half, on this GPU",
            inputs=("exported",),
            outputs=("engine/vision", "tools.json"),
        )
    yield module_step(
        plan,
        "verify-vision",
        "compare the exported vision half with torch on sample images",
        inputs=("engine/vision", "reference.npz"),
        outputs=("verification.json",),
        permanent_reason=BuildReason.VERIFICATION_FAILED,
    )


def has_class(facts: ModelFacts) -> bool:
    return FAMILIES[facts.family].sees == (facts.vision is not None)


def fetch_adapters_step(plan: BuildPlan, folder: str) -> Step:
    """Return the step that brings the LoRA adapters into a folder of the working directory."""
    return module_step(
        plan,
        "fetch-adapters",
        "copy the LoRA adapters",
        outputs=(folder,),
    )


def tokenizer_steps(plan: BuildPlan, source: str) -> tuple[Step, ...]:
    """Return the step, or none."""
    made_of = plan.facts.sentence_piece_model
    if made_of is None and not FAMILIES[plan.engine.family].checkpoint.tokenizer.bytes_are_tokens:
        return ()
    return (
        module_step(
            plan,
            "make-tokenizer",
            "write tokenizer.json, which is all that servers read",
            inputs=(source,),
            outputs=(f"engine/{TOKENIZER_FOLDER}",),
        ),
    )


def evaluation_steps(plan: BuildPlan, source: str) -> tuple[Step, ...]:
    """Return the step, or none: the plan leaves it out, or no build can run the checkpoint.

    It comes last: what can fail for good has failed before it.
    """
    if evaluation_cost(plan.engine, plan.facts) is None:
        return ()
    return (
        module_step(
            plan,
            "evaluation",
            "compute the checkpoint's own answers, which pods are compared with",
            inputs=(source,),
            outputs=(f"engine/{EVALUATION_NAME}",),
        ),
    )
