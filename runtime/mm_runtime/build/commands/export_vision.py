"""Export the vision tower with its projector to ONNX."""

import logging

import onnx
import torch

from mm_runtime.build.commands import llava_vision
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

MODEL_NAME = "model.onnx"
INPUT_NAME = "pixel_values"
OUTPUT_NAME = "features"


def export_vision(context: StepContext) -> None:
    """Write `vision/model.onnx` with a dynamic batch dimension."""
    vision, facts = context.plan.engine.vision, context.plan.facts.vision
    if vision is None or facts is None:
        raise PermanentError("The plan has no vision part, and this step was asked for.")
    model = llava_vision.load(context.places.llm, trust_remote_code=context.plan.trust_remote_code)
    half = llava_vision.VisionHalf(model, facts.feature_layer, facts.feature_select)
    example = torch.zeros(2, 3, vision.image_size, vision.image_size)
    with torch.inference_mode():
        shape = tuple(half(example).shape)
    expected = (2, vision.features_per_image, context.plan.facts.text.hidden_size)
    if shape != expected:
        raise PermanentError(
            f"The vision tower gives {shape} for two pictures; the plan expects {expected}."
        )
    path = context.places.vision / MODEL_NAME
    torch.onnx.export(
        half,
        (example,),
        str(path),
        input_names=[INPUT_NAME],
        output_names=[OUTPUT_NAME],
        opset_version=vision.opset,
        dynamo=True,
        dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch", min=1, max=4096)}},
        external_data=path_needs_external_data(half),
        verbose=False,
    )
    onnx.checker.check_model(str(path))
    log.info("%s: %d bytes, opset %d", path.name, path.stat().st_size, vision.opset)


def path_needs_external_data(half: torch.nn.Module) -> bool:
    """Return whether the weights exceed what one protobuf file holds (2 GiB)."""
    return sum(weight.nbytes for weight in half.parameters()) > 2**31 - 2**26


if __name__ == "__main__":
    run_step(export_vision)
