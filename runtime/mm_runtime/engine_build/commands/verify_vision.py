"""Compare the exported vision model with torch on sample images."""

import logging
import os

import numpy as np

from mm_api.documents.engine_manifest import Verification
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError, VerificationFailedError
from mm_runtime.serving.encode.vision.scales import JOINED
from mm_runtime.serving.encode.vision.session import PROJECTOR, TOWER, open_runner
from mm_runtime.serving.threads import threads_for

log = logging.getLogger(__name__)


def verify_vision(context: StepContext) -> None:
    """Write `verification.json`; fail when the largest difference exceeds the plan's tolerance."""
    vision = context.plan.engine.vision
    if vision is None:
        raise PermanentError("The plan has no vision part, which this step needs.")
    runs = vision_samples.read(context.paths.reference)
    # TensorRT is built from the same graph afterwards, so the graph is what is compared.
    compared = "Torch" if vision.engine == "Torch" else "ONNXRuntime"
    threads = threads_for(context.plan.facts.weight_bytes, len(os.sched_getaffinity(0)))
    parts = {PROJECTOR if JOINED in inputs else TOWER for inputs, _ in runs}
    run = {
        part: open_runner(compared, context.paths.vision, part=part, threads=threads)
        for part in sorted(parts)
    }
    differences = [
        _difference(run[PROJECTOR if JOINED in inputs else TOWER](inputs), wanted)
        for inputs, wanted in runs
    ]
    difference = float(np.max(differences))  # not a number if any of them is not
    log.info(
        "largest difference to torch %.3g in %d runs (tolerance %.3g)",
        difference,
        len(runs),
        vision.tolerance,
    )
    if not difference <= vision.tolerance:  # also when it is not a number
        raise VerificationFailedError(
            f"The exported vision model differs from torch by {difference:.3g} in {len(runs)}"
            f" runs; at most {vision.tolerance:.3g} is allowed. It is not used."
        )
    result = Verification(
        samples=len(runs), max_abs_difference=difference, tolerance=vision.tolerance
    )
    write_durably(context.paths.verification, result.to_json(indent=1))


def _difference(found: vision_samples.Array, wanted: vision_samples.Array) -> float:
    """Return the largest absolute difference.

    Raises:
        VerificationFailedError: they differ in shape.
    """
    if found.shape != wanted.shape:
        raise VerificationFailedError(
            f"The exported vision model gives {found.shape}; torch gives {wanted.shape}."
        )
    return float(np.abs(found - wanted).max())


if __name__ == "__main__":
    run_step(verify_vision)
