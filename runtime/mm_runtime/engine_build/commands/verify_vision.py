"""Compare the exported vision model with torch on sample images."""

import logging
import os

import numpy as np

from mm_api.documents.engine_manifest import Verification
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError, VerificationFailedError
from mm_runtime.serving.encode.vision.session import VisionSession, open_runner
from mm_runtime.serving.threads import threads_for

log = logging.getLogger(__name__)


def verify_vision(context: StepContext) -> None:
    """Write `verification.json`; fail when the largest difference exceeds the plan's tolerance."""
    vision = context.plan.engine.vision
    if vision is None:
        raise PermanentError("The plan has no vision part, which this step needs.")
    runs = vision_samples.read(context.paths.reference)
    threads = threads_for(context.plan.facts.weight_bytes, len(os.sched_getaffinity(0)))
    runner = open_runner(vision.engine, context.paths.vision, threads=threads)
    most = vision.max_batch_size if vision.tensorrt else len(runs[0][1])
    session = VisionSession(runner, max_batch_size=most)
    differences = [_differences(session.run(inputs), wanted) for inputs, wanted in runs]
    # Not a number if any of them is not.
    absolute, relative = (float(np.max(kind)) for kind in zip(*differences, strict=True))
    difference, of = (relative, " of the norm") if vision.tensorrt else (absolute, "")
    log.info(
        "largest difference to torch %.3g%s in %d runs (tolerance %.3g)",
        difference,
        of,
        len(runs),
        vision.tolerance,
    )
    if not difference <= vision.tolerance:  # also when it is not a number
        advice = ". Set spec.vision.engine to Torch" if vision.tensorrt else ""
        raise VerificationFailedError(
            f"The exported vision model differs from torch by {difference:.3g}{of} in {len(runs)}"
            f" runs; at most {vision.tolerance:.3g} is allowed. It is not used{advice}."
        )
    result = Verification(
        samples=len(runs),
        max_abs_difference=absolute,
        relative_difference=relative,
        tolerance=vision.tolerance,
    )
    write_durably(context.paths.verification, result.to_json(indent=1))


def _differences(found: vision_samples.Array, wanted: vision_samples.Array) -> tuple[float, float]:
    if found.shape != wanted.shape:
        raise VerificationFailedError(
            f"The exported vision model gives {found.shape}; torch gives {wanted.shape}."
        )
    apart = found - wanted
    return float(np.abs(apart).max()), float(np.linalg.norm(apart) / np.linalg.norm(wanted))


if __name__ == "__main__":
    run_step(verify_vision)
