"""Build a TensorRT engine of the exported vision model; the same code drives both TensorRTs.

TensorRT for RTX builds without a GPU and measures nothing. TensorRT needs the GPU it builds for,
and what it measured goes into a timing cache beside the engines: the next build is faster.
"""

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.model_facts import VisionFacts
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands.onnx_names import ENGINE_NAME, MODEL_NAME
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.commands.vision_profile import profile
from mm_runtime.engine_build.timing_cache import CACHES
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)


def build_vision(context: StepContext) -> None:
    """Write `vision/model.engine` with the plan's profile."""
    vision, facts = context.plan.engine.vision, context.plan.facts.vision
    if vision is None or facts is None:
        raise PermanentError("The plan has no vision part, which this step needs.")
    tensorrt = _module(vision)
    cache = context.paths.store / CACHES / f"tensorrt-{tensorrt.__version__}"
    measured = None
    # Timing caches of TensorRT for RTX are deprecated since 1.2: operations on them do nothing.
    if vision.uses_tensorrt:
        measured = cache.read_bytes() if cache.is_file() else b""
    model = context.paths.vision / MODEL_NAME
    engine, measured = build_engine(tensorrt, model, vision, facts, measured)
    (context.paths.vision / ENGINE_NAME).write_bytes(engine)
    if measured is not None:
        cache.parent.mkdir(exist_ok=True)
        write_durably(cache, measured)
    log.info("%s: %d bytes, %s %s", ENGINE_NAME, len(engine), vision.engine, tensorrt.__version__)


def build_engine(
    tensorrt: Any, model: Path, plan: VisionPlan, facts: VisionFacts, measured: bytes | None
) -> tuple[bytes, bytes | None]:
    """Return the engine's bytes and the timing cache after it.

    Args:
        tensorrt: the module, of either TensorRT.
        model: the exported vision model.
        plan: batch profile.
        facts: sizes of images.
        measured: timing cache of earlier builds, empty for a new one, None for no cache at all.

    Raises:
        PermanentError: the parser or the builder refuses the model; with their words.
    """
    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(0)
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(model)):
        errors = "; ".join(str(parser.get_error(at)) for at in range(parser.num_errors))
        raise PermanentError(f"TensorRT does not read {model.name}: {errors}")
    config = builder.create_builder_config()
    config.add_optimization_profile(_profile(builder, network, plan, facts))
    if measured is not None:
        config.set_timing_cache(config.create_timing_cache(measured), ignore_mismatch=True)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise PermanentError(
            f"TensorRT {tensorrt.__version__} builds no engine of {model.name}; its log is above."
        )
    after = None if measured is None else bytes(config.get_timing_cache().serialize())
    return bytes(engine), after


def _profile(builder: Any, network: Any, plan: VisionPlan, facts: VisionFacts) -> Any:
    """Return least, usual and most sizes of every input."""
    found = builder.create_optimization_profile()
    for number in range(network.num_inputs):
        tensor = network.get_input(number)
        shapes: tuple[list[int], list[int], list[int]] = ([], [], [])
        for axis, size in enumerate(tuple(tensor.shape)):
            if size >= 0:
                sizes = (size, size, size)
            else:
                free = profile(tensor.get_dimension_name(axis), plan, facts)
                sizes = (free.least, free.usual, free.most)
            for shape, one in zip(shapes, sizes, strict=True):
                shape.append(one)
        found.set_shape(tensor.name, *shapes)
    return found


def _module(vision: VisionPlan) -> Any:
    if vision.builder is None:
        raise PermanentError(f"{vision.engine} is not a TensorRT, which this step builds for.")
    try:
        return import_module(vision.builder)
    except ImportError as error:
        raise PermanentError(
            f"The builder image has no module {vision.builder} ({error}), which vision.engine"
            f" {vision.engine} needs: use an image that holds it, or set vision.engine to"
            " ONNXRuntime."
        ) from error


if __name__ == "__main__":
    run_step(build_vision)
