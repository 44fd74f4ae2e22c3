"""PURE: the step that makes a tokenizer for the family whose checkpoints have no file of one."""

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_runtime.build.step import Step, module_step


def tokenizer_steps(plan: BuildPlan, source: str) -> tuple[Step, ...]:
    """Return the step, or none.

    Args:
        plan: of the build.
        source: where the engine has the checkpoint's own tokenizer, from the working directory.
    """
    if plan.engine.family != "byt5":
        return ()
    return (
        module_step(
            plan,
            "make-tokenizer",
            "write tokenizer.json, which is all that servers read: its tokens are bytes",
            inputs=(source,),
            outputs=(f"engine/{TOKENIZER_FOLDER}",),
        ),
    )
