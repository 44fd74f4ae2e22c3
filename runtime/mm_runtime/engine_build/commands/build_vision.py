"""Build a TensorRT engine of the exported vision half, on the GPU that will run it.

What was measured meanwhile goes into a timing cache of the store: the next build is faster.
"""

import logging
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.engine_manifest import GpuIdentity
from mm_api.documents.model_facts import VisionFacts
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands.check_tools import gpu_here
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.receipt import ToolReport
from mm_runtime.engine_build.timing_cache import CACHES
from mm_runtime.errors import PermanentError
from mm_runtime.serving.encode.vision.builder_tensors import OUTPUT
from mm_runtime.serving.encode.vision.session import ONNX, TOWER
from mm_runtime.serving.encode.vision.tensorrt_open import ENGINES

log = logging.getLogger(__name__)

Sizes = tuple[int, int, int]
"""Least, usual and most."""

BATCH_ENDS = (4,)
"""Images of the largest batch of a profile that another follows: few and many images are computed
best by different kernels (CLIP ViT-L/14-336 on an H200)."""


def build_vision(context: StepContext) -> None:
    """Write `vision/model.engine` with the plan's profile, and what built it where."""
    vision, facts = context.plan.engine.vision, context.plan.facts.vision
    if vision is None or facts is None or vision.tensorrt is None:
        raise PermanentError("The plan builds no engine of TensorRT, which this step does.")
    tensorrt = _module()
    planned = vision.tensorrt
    gpu = gpu_here(
        GpuIdentity(product=planned.product, compute_capability=planned.compute_capability)
    )
    name = f"tensorrt-{tensorrt.__version__}-{gpu.product}-{gpu.compute_capability}"
    cache = context.paths.store / CACHES / name
    measured = cache.read_bytes() if cache.is_file() else b""
    # TensorRT does not forgive a damaged one: what fails with it begins without.
    cache.unlink(missing_ok=True)
    model = context.paths.exported / f"{TOWER}{ONNX}"
    engine, measured = build_engine(tensorrt, model, vision, facts, measured)
    (context.paths.vision / ENGINES[0]).write_bytes(engine)
    cache.parent.mkdir(exist_ok=True)
    write_durably(cache, measured)
    report = ToolReport(versions={"tensorrt": tensorrt.__version__}, gpu=gpu)
    write_durably(context.paths.tools, report.to_json(indent=1))
    log.info("%s: %d bytes, TensorRT %s", ENGINES[0], len(engine), tensorrt.__version__)


def build_engine(
    tensorrt: Any, model: Path, plan: VisionPlan, facts: VisionFacts, measured: bytes
) -> tuple[bytes, bytes]:
    """Return the engine's bytes and the timing cache after it.

    Types are those of the model: distances of a half that TensorRT chooses itself are its affair.

    `measured`: timing cache of earlier builds; empty: there is none.

    Raises:
        PermanentError: the parser or the builder refuses the model; with their words.
    """
    from mm_runtime.serving.encode.vision.tensorrt_runner import Log  # noqa: PLC0415 (TensorRT)

    logger = Log()
    try:
        builder = tensorrt.Builder(logger)
    except TypeError as error:  # pybind11's word for a null pointer
        raise PermanentError(
            f"TensorRT {tensorrt.__version__} finds no GPU that it can use: {logger.error}. The"
            " node's driver may be older than the image's CUDA"
        ) from error
    network = builder.create_network(
        1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    )
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(model)):
        errors = "; ".join(str(parser.get_error(at)) for at in range(parser.num_errors))
        raise PermanentError(
            f"TensorRT {tensorrt.__version__} does not read the vision half: {errors}. Set"
            " spec.vision.engine to Torch"
        )
    network.get_output(0).name = OUTPUT
    config = builder.create_builder_config()
    config.clear_flag(tensorrt.BuilderFlag.TF32)  # ten bits of mantissa are not float32
    for batches in batch_profiles(plan.max_batch_size):
        config.add_optimization_profile(_profile(builder, network, batches, facts))
    config.set_timing_cache(config.create_timing_cache(measured), ignore_mismatch=True)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise PermanentError(
            f"TensorRT {tensorrt.__version__} builds no engine for up to {plan.max_batch_size}"
            f" images: {logger.error}. Where memory is short, lower spec.vision.maxBatchSize"
        )
    return bytes(engine), bytes(config.get_timing_cache().serialize())


def batch_profiles(most: int) -> list[Sizes]:
    """Return least, usual and most images of each profile; the kernels are chosen for the usual.

    `most`: images of the largest batch; half of it is usual, as far as a profile has it.
    """
    ends = [end for end in BATCH_ENDS if end < most]
    return [
        (first + 1, min(last, max(first + 1, most // 2)), last)
        for first, last in pairwise([0, *ends, most])
    ]


def _profile(builder: Any, network: Any, batches: Sizes, facts: VisionFacts) -> Any:
    """Return least, usual and most sizes of every input."""
    found = builder.create_optimization_profile()
    for number in range(network.num_inputs):
        tensor = network.get_input(number)
        shapes: tuple[list[int], list[int], list[int]] = ([], [], [])
        for axis, size in enumerate(tuple(tensor.shape)):
            if size >= 0:
                sizes = (size, size, size)
            else:
                sizes = profile(tensor.get_dimension_name(axis), batches, facts)
            for shape, one in zip(shapes, sizes, strict=True):
                shape.append(one)
        found.set_shape(tensor.name, *shapes)
    return found


def profile(name: str, batches: Sizes, facts: VisionFacts) -> Sizes:
    """Return the least, usual and largest value of one free size, by the export's name of it."""
    if name == "batch":
        return batches
    if name == "patches" and facts.min_pixels and facts.max_pixels:
        pixels = facts.patch_size**2
        merged = (facts.merge_size or 1) ** 2
        least, most = facts.min_pixels // pixels, facts.max_pixels // pixels
        # Every image is complete blocks of merged patches.
        usual = (least + most) // 2 // merged * merged
        return max(merged, least), max(merged, usual), max(merged, most)
    raise PermanentError(
        f"The exported vision model has a free size {name!r}; expected batch or patches."
    )


def _module() -> Any:
    try:
        return import_module("tensorrt")
    except ImportError as error:
        raise PermanentError(
            f"The builder image has no TensorRT ({error}), which spec.vision.engine needs: make an"
            " image of runtime/Dockerfile.cuda that holds it and set spec.build.image and"
            " spec.runtime.image to that, or set spec.vision.engine to Torch."
        ) from error


if __name__ == "__main__":
    run_step(build_vision)
