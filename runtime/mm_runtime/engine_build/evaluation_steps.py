"""PURE: the step that keeps the checkpoint's own answers with an engine of any backend."""

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.evaluation import EVALUATION_NAME
from mm_api.evaluation import evaluation_cost
from mm_runtime.engine_build.step import Step, module_step


def evaluation_steps(plan: BuildPlan, source: str) -> tuple[Step, ...]:
    """Return the step, or none: the plan leaves it out, or no build can run the checkpoint.

    It comes last: what can fail for good has failed before it.

    `source`: where the checkpoint lies, from the working directory.
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
