"""Export the vision tower with its projector to ONNX."""

import logging
from typing import Any

import onnx
import torch

from mm_runtime.build.commands import llava_vision, vision_samples
from mm_runtime.build.commands.onnx_names import INPUT_NAME, MODEL_NAME, OUTPUT_NAME
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

PROTOBUF_BYTES = 2**31 - 2**26
"""Weights that fit into one ONNX file: protobuf ends at 2 GiB, and the graph needs some of it."""


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
    _keep_answers(context, model)
    logging.getLogger("torch.onnx").setLevel(
        logging.ERROR
    )  # it misses torchvision, which is unused
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
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
        external_data=_needs_external_data(half),
        verbose=False,
    )
    onnx.checker.check_model(str(path))
    log.info("%s: %d bytes, opset %d", path.name, path.stat().st_size, vision.opset)


def _keep_answers(context: StepContext, model: Any) -> None:
    """Write what torch makes of the sample pictures, for the next step, which needs no torch.

    Asked is the model's own `get_image_features`, not the module that is exported: a wrong layer or
    a wrong selection would agree with itself.
    """
    facts = context.plan.facts.vision
    assert facts is not None  # noqa: S101 (checked by the caller)
    pictures = vision_samples.pictures(facts.image_size)
    with torch.inference_mode():
        output = model.model.get_image_features(
            pixel_values=torch.from_numpy(pictures),
            vision_feature_layer=facts.feature_layer,
            vision_feature_select_strategy=facts.feature_select,
        )
    rows = getattr(output, "pooler_output", output)  # transformers 5 wraps what 4 returned
    features = torch.stack([row.reshape(-1, row.shape[-1]) for row in rows]).numpy()
    vision_samples.write(context.places.reference, pictures, features)


def _needs_external_data(half: torch.nn.Module) -> bool:
    """Return whether the weights exceed what one protobuf file holds."""
    return sum(weight.nbytes for weight in half.parameters()) > PROTOBUF_BYTES


if __name__ == "__main__":
    run_step(export_vision)
