"""PURE: the step that makes a tokenizer for families whose checkpoints come without a fast one."""

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_runtime.build.step import Step, module_step

FAMILIES = frozenset({"byt5", "mt5", "mbart", "vila"})
"""Those whose publishers give SentencePiece's model alone, and ByT5, which needs no file."""


def tokenizer_steps(plan: BuildPlan, source: str) -> tuple[Step, ...]:
    """Return the step, or none.

    Args:
        plan: of the build.
        source: where the engine has the checkpoint's own tokenizer, from the working directory.
    """
    if plan.engine.family not in FAMILIES:
        return ()
    return (
        module_step(
            plan,
            "make-tokenizer",
            "write tokenizer.json, which is all that servers read, where there is none",
            inputs=(source,),
            outputs=(f"engine/{TOKENIZER_FOLDER}",),
        ),
    )
