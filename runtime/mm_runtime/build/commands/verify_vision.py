"""Compare the exported vision model with torch on sample pictures."""

import logging

import numpy as np
import onnxruntime

from mm_api.documents.engine_manifest import Verification
from mm_runtime.build.commands import vision_samples
from mm_runtime.build.commands.onnx_names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.durable import write_durably
from mm_runtime.errors import PermanentError, VerificationFailedError

log = logging.getLogger(__name__)


def verify_vision(context: StepContext) -> None:
    """Write `verification.json`; fail when the largest difference exceeds the plan's tolerance.

    The pictures are sent as one batch and one by one: a batch dimension that was baked in shows
    only in one of the two.
    """
    vision = context.plan.engine.vision
    if vision is None:
        raise PermanentError("The plan has no vision part, and this step was asked for.")
    pictures, wanted = vision_samples.read(context.places.reference)
    session = onnxruntime.InferenceSession(
        str(context.places.vision / MODEL_NAME), providers=["CPUExecutionProvider"]
    )
    batch = session.run([OUTPUT_NAME], {INPUT_NAME: pictures})[0]
    single = np.concatenate(
        [session.run([OUTPUT_NAME], {INPUT_NAME: picture[None]})[0] for picture in pictures]
    )
    if batch.shape != wanted.shape:
        raise VerificationFailedError(
            f"The exported vision model gives {batch.shape}; torch gives {wanted.shape}."
        )
    difference = float(max(np.abs(batch - wanted).max(), np.abs(single - wanted).max()))
    log.info(
        "largest difference to torch %.3g on %d pictures (tolerance %.3g)",
        difference,
        len(pictures),
        vision.tolerance,
    )
    if not difference <= vision.tolerance:  # also when it is not a number
        raise VerificationFailedError(
            f"The exported vision model differs from torch by {difference:.3g} on {len(pictures)}"
            f" pictures; at most {vision.tolerance:.3g} is allowed. It is not used."
        )
    result = Verification(
        samples=len(pictures), max_abs_difference=difference, tolerance=vision.tolerance
    )
    write_durably(context.places.verification, result.to_json(indent=1))


if __name__ == "__main__":
    run_step(verify_vision)
