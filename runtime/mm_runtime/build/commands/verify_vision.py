"""Compare the exported vision model with torch on sample pictures."""

import logging

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

from mm_api.documents.engine_manifest import Verification
from mm_runtime.build.commands import llava_vision
from mm_runtime.build.commands.export_vision import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.durable import write_durably
from mm_runtime.errors import PermanentError, VerificationFailedError

log = logging.getLogger(__name__)

SAMPLES = 8
"""Pictures that are compared: extremes and a few in between; seconds even for a large tower."""

SEED = 20250
"""Fixed, so that two builds of one checkpoint measure the same."""


def sample_pictures(side: int) -> npt.NDArray[np.float32]:
    """Return normalised pictures, float32[SAMPLES, 3, side, side]: black, white, ramps, noise.

    Normalised CLIP input lies between -2 and 2.7.
    """
    random = np.random.default_rng(SEED)
    ramp = np.linspace(-2.0, 2.7, side, dtype=np.float32)
    pictures = [
        np.full((3, side, side), -2.0, dtype=np.float32),
        np.full((3, side, side), 2.7, dtype=np.float32),
        np.broadcast_to(ramp, (3, side, side)),
        np.broadcast_to(ramp[:, None], (3, side, side)),
    ]
    while len(pictures) < SAMPLES:
        pictures.append(random.uniform(-2.0, 2.7, (3, side, side)).astype(np.float32))
    return np.stack(pictures)


def verify_vision(context: StepContext) -> None:
    """Write `verification.json`; fail when the largest difference exceeds the plan's tolerance.

    Torch's side is the model's own `get_image_features`, not the module that was exported: a wrong
    layer or a wrong selection would otherwise agree with itself. The pictures are sent one by one
    and as one batch, because a batch dimension that was baked in shows only in the second.
    """
    vision, facts = context.plan.engine.vision, context.plan.facts.vision
    if vision is None or facts is None:
        raise PermanentError("The plan has no vision part, and this step was asked for.")
    pictures = sample_pictures(vision.image_size)
    model = llava_vision.load(context.places.llm, trust_remote_code=context.plan.trust_remote_code)
    with torch.inference_mode():
        output = model.model.get_image_features(
            pixel_values=torch.from_numpy(pictures),
            vision_feature_layer=facts.feature_layer,
            vision_feature_select_strategy=facts.feature_select,
        )
    rows = getattr(output, "pooler_output", output)
    wanted = torch.stack([row.reshape(-1, row.shape[-1]) for row in rows]).numpy()
    session = onnxruntime.InferenceSession(
        str(context.places.vision / MODEL_NAME), providers=["CPUExecutionProvider"]
    )
    batch = session.run([OUTPUT_NAME], {INPUT_NAME: pictures})[0]
    single = np.concatenate(
        [session.run([OUTPUT_NAME], {INPUT_NAME: picture[None]})[0] for picture in pictures]
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
