"""Export the vision half of a checkpoint to ONNX."""

import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_runtime.base.importing import importing
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.commands.verify_weights import compare_with_class
from mm_runtime.errors import PermanentError
from mm_runtime.serving.encode.vision.load import EXTRAS
from mm_runtime.serving.encode.vision.session import ONNX, TORCH, TOWER

with importing():
    import onnx
    import torch

    from mm_runtime.engine_build.commands.towers import load_tower
    from mm_runtime.engine_build.commands.towers.fusing import fuse
    from mm_runtime.engine_build.commands.towers.tower import Tower

log = logging.getLogger(__name__)

PROTOBUF_BYTES = 2**31 - 2**26
"""Weights that fit into one ONNX file: protobuf ends at 2 GiB, and the graph needs some of it."""

BATCH_BOUND = 4096
"""The exporter wants a bound of the batch; far above any profile."""


def export_vision(context: StepContext) -> None:
    """Write the vision half with a dynamic batch dimension, for what will run or build it.

    Before it, all weights are compared with the checkpoint's class: to load torch twice would take
    longer than both.
    """
    vision, facts = context.plan.engine.vision, context.plan.facts
    if vision is None or facts.vision is None:
        raise PermanentError("The plan has no vision part, which this step needs.")
    checkpoint = context.paths.weights
    compare_with_class(facts, checkpoint)
    tower = load_tower(checkpoint, facts, trust_remote_code=context.plan.trust_remote_code)
    _check_shape(tower, facts)
    _keep_answers(context.paths.reference, tower)
    context.paths.vision.mkdir(exist_ok=True)
    if tower.extras:
        np.savez(context.paths.vision / EXTRAS, **tower.extras)
    folder = context.paths.exported if vision.tensorrt else context.paths.vision
    folder.mkdir(exist_ok=True)
    path = folder / f"{TOWER}{TORCH if vision.engine == 'Torch' else ONNX}"
    if vision.may_use_gpu and not FAMILIES[facts.family].layout.stores_scores:
        fuse(tower.module)
    if vision.engine == "Torch":
        write_program(tower, path)
    elif vision.tensorrt and vision.tensorrt.dtype == "float16":
        write_onnx(halved(tower), path, opset=vision.opset)
    else:
        write_onnx(tower, path, opset=vision.opset)
    log.info("%s: %d bytes, opset %d", path.name, path.stat().st_size, vision.opset)


def halved(tower: Tower) -> Tower:
    """Return a vision half in float16, which its module is from then on.

    TensorRT computes what is written: where a model counts or sums in float32, it still does.
    """
    samples = [
        {
            name: value.astype(np.float16) if value.dtype == np.float32 else value
            for name, value in sample.items()
        }
        for sample in tower.samples
    ]
    return replace(tower, module=tower.module.half(), samples=tuple(samples))


def write_program(tower: Tower, path: Path) -> None:
    """Export a vision half for torch itself; its named sizes stay free."""
    sample = tower.samples[0]
    program = torch.export.export(
        tower.module,
        (),
        {one.name: torch.from_numpy(sample[one.name]) for one in tower.inputs},
        dynamic_shapes=_dynamic_shapes(tower),
        # That patches come in complete blocks is asserted when it runs, not guessed from the name.
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    torch.export.save(program, path)


def write_onnx(tower: Tower, path: Path, *, opset: int) -> None:
    """Export a vision half and check the file; its named sizes stay free."""
    # Where torchvision is not installed it says so; no tower uses it.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # That two inputs share their batch is intended.
        warnings.filterwarnings("ignore", message="# The axis name")
        program: Any = torch.onnx.export(
            tower.module,
            tower.torch_inputs(tower.samples[0]),
            input_names=[one.name for one in tower.inputs],
            output_names=[vision_samples.FEATURES],
            opset_version=opset,
            dynamo=True,
            dynamic_shapes=_dynamic_shapes(tower),
            verbose=False,
        )
    for node in program.model.graph:
        reduction = node.attributes.get("reduction")
        # TensorRT 10.6 refuses a ScatterND with this attribute, even where it has its default.
        if node.op_type == "ScatterND" and reduction and reduction.as_string() == "none":
            del node.attributes["reduction"]
    program.save(str(path), external_data=_needs_external_data(tower.module))
    onnx.checker.check_model(str(path))


def _dynamic_shapes(tower: Tower) -> dict[str, dict[int, Any]]:
    """Return which sizes of each input are free; one name is one size in all inputs."""
    dims: dict[str, Any] = {}
    shapes: dict[str, dict[int, Any]] = {}
    for one in tower.inputs:
        shapes[one.name] = {}
        for axis, size in enumerate(one.dims):
            if isinstance(size, str):
                bound = BATCH_BOUND if size == "batch" else one.largest
                dims.setdefault(size, torch.export.Dim(size, min=1, max=bound))
                shapes[one.name][axis] = dims[size]
    return shapes


def _check_shape(tower: Tower, facts: ModelFacts) -> None:
    """Refuse a tower whose features are not those the plan was made for."""
    assert facts.vision is not None  # noqa: S101 (checked by the caller)
    sample = tower.samples[0]
    with torch.inference_mode():
        batch, rows, hidden = tower.module(*tower.torch_inputs(sample)).shape
    free = any(isinstance(size, str) and size != "batch" for size in tower.inputs[0].dims)
    expected = rows if free else facts.vision.features_per_image
    given = len(next(iter(sample.values())))
    if (batch, rows, hidden) != (given, expected, facts.row_size):
        raise PermanentError(
            f"The vision tower gives {(batch, rows, hidden)} for {given}"
            f" images; the plan expects {expected} rows of {facts.row_size}."
        )


def _keep_answers(path: Path, tower: Tower) -> None:
    """Write what torch makes of the samples, for the next step, which needs no torch.

    The reference is the model's own way, not the module that is exported: a wrong layer or a wrong
    selection would agree with itself.
    """
    with torch.inference_mode():
        runs = [(sample, tower.reference(sample).numpy()) for sample in tower.samples]
    vision_samples.write(path, runs)


def _needs_external_data(half: torch.nn.Module) -> bool:
    return sum(weight.nbytes for weight in half.parameters()) > PROTOBUF_BYTES


if __name__ == "__main__":
    run_step(export_vision)
