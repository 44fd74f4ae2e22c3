"""PURE: the step that makes a tokenizer for checkpoints that have no file of one for servers."""

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_api.families import FAMILIES
from mm_runtime.engine_build.step import Step, module_step


def tokenizer_steps(plan: BuildPlan, source: str) -> tuple[Step, ...]:
    """Return the step, or none.

    `source`: where the checkpoint's own tokenizer lies, from the working directory.
    """
    made_of = plan.facts.sentence_piece_model or plan.facts.byte_pair_vocabulary
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
