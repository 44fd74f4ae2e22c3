"""The check that Jobs begin with: an image that cannot do the work ends them at once, by name."""

from mm_api.contract import Command, ExitCode
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_api.documents.model_facts import InspectReason
from mm_runtime.doctor.checks import examine
from mm_runtime.doctor.need import Need, build_need, inspect_need
from mm_runtime.doctor.observe import observe
from mm_runtime.doctor.report import sentence
from mm_runtime.errors import InspectRefusedError


def check_inspect_image(*addresses: str) -> None:
    """Check the image of an inspection; `ImageNotUsable` has every failure and its fix."""
    if problem := _problem(inspect_need(*addresses)):
        raise InspectRefusedError(InspectReason.IMAGE_NOT_USABLE, problem)


def image_failure(plan: BuildPlan, *addresses: str) -> BuildResult | None:
    """Return the result of a build that this image cannot run; None: it can."""
    problem = _problem(build_need(plan, *addresses))
    if not problem:
        return None
    failure = BuildFailure(
        reason=BuildReason.IMAGE_NOT_USABLE,
        step=Command.DOCTOR,
        exit_code=ExitCode.PERMANENT,
        message=problem,
        retryable=False,
    )
    return BuildResult(fingerprint=plan.fingerprint, failure=failure)


def _problem(need: Need) -> str:
    failures = examine(need, observe()).image_failures
    return f"the image cannot be used: {sentence(failures)}" if failures else ""
