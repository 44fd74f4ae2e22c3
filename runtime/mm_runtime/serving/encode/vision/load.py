"""From an engine directory to the vision encoder of its family."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.model_facts import VisionFacts
from mm_api.documents.serving_plan import Device
from mm_api.families import FAMILIES
from mm_api.vision_runs import entries_of_a_run
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.encode.vision.encoder import (
    CrossAttentionEncoder,
    GridEncoder,
    ViewEncoder,
    VisionEncoder,
    kept_newline,
)
from mm_runtime.serving.encode.vision.features import RequestEncoder
from mm_runtime.serving.encode.vision.pixel_bytes import NormalisingRunner, normalisation_of
from mm_runtime.serving.encode.vision.session import VisionSession, open_runner
from mm_runtime.serving.encode.vision.tensorrt_open import (
    check_origin,
    open_tensorrt,
    read_newline,
)
from mm_runtime.serving.threads import threads_for

EXTRAS = "extras.npz"


def load_encoder(
    engine: EngineDirectory,
    plan: VisionPlan,
    cache: FeatureCache | None = None,
    *,
    device: Device = "CPU",
    keeps: bool = False,
    leave_as: str = "",
) -> RequestEncoder:
    """Load the vision engine with one thread for a small model, all cores for a large one.

    `cache`: None encodes every image. `keeps`: features may stay on a GPU; where they are put
    together they do not. `leave_as`: see `RunnerOptions`; empty: float32.

    Raises:
        OSError, ValueError: a file is missing or not understood.
    """
    facts, vision = engine.facts, engine.facts.vision
    if vision is None:
        raise ValueError(f"{engine.root}: a plan for images without facts about the tower")
    threads = threads_for(facts.weight_bytes, len(os.sched_getaffinity(0)))
    folder, family = engine.vision_folder, FAMILIES[facts.family]
    layout, plain = family.layout, family.layout.plain
    native = plan.uses_tensorrt and plan.tensorrt is None
    if plan.tensorrt:
        check_origin(folder, engine.manifest)
    keeps = keeps and layout.is_square
    normalisation = normalisation_of(engine)
    on_gpu = plan.may_use_gpu and device == "CUDA"
    runner = (
        open_tensorrt(folder, layout, vision, keeps=keeps)
        if native
        else open_runner(
            plan.engine,
            folder,
            threads=threads,
            device=device,
            keeps=keeps,
            half=plain and on_gpu and engine.manifest.plan.engine.dtype != "float32",
            graphs=plan.max_batch_size if plain and on_gpu else 0,
            normalisation=normalisation if on_gpu else None,
            leave_as=leave_as if on_gpu and layout.is_square else "",
        )
    )
    if normalisation and not on_gpu:
        runner = NormalisingRunner(runner, normalisation)
    newline = None
    if layout.vectors:
        newline = read_newline(folder) if native else kept_newline(folder / EXTRAS)
    together = plan.max_batch_size
    # TensorRT has the memory of its largest run from the start: shorter ones would save nothing.
    if not native and (plan.engine == "ONNXRuntime" or device == "CPU"):  # on the processor
        together = entries_of_a_run(family, vision, plan.engine, together)
    session = VisionSession(runner, max_batch_size=together, cache=cache)
    return encoder_of(engine, plan, session, newline)


def encoder_of(
    engine: EngineDirectory,
    plan: VisionPlan,
    session: VisionSession,
    newline: NDArray[np.float32] | None,
) -> RequestEncoder:
    """Return the encoder of a family's requests around a session that runs its tower.

    `newline`: [hidden], what ends a row of patches; None: the family's images have none.
    """
    layout, vision = FAMILIES[engine.facts.family].layout, engine.facts.vision
    assert vision is not None  # noqa: S101  # a session has a tower
    return ENCODERS[layout.encoder or "images"](_Parts(engine, plan, vision, session, newline))


class _Parts(NamedTuple):
    """What encoders are made of."""

    engine: EngineDirectory
    plan: VisionPlan
    vision: VisionFacts
    session: VisionSession
    newline: Any


ENCODERS: Mapping[str, Callable[[_Parts], RequestEncoder]] = {
    "images": lambda one: VisionEncoder(one.session, image_size=one.plan.image_size),
    "grids": lambda one: GridEncoder(one.session, one.engine.facts, one.engine.configs),
    "tiles": lambda one: CrossAttentionEncoder(one.session, one.vision),
    "views": lambda one: ViewEncoder(
        one.session,
        one.vision,
        one.newline,
        single_views=FAMILIES[one.engine.facts.family].layout.features_of_several is not None,
    ),
}
"""`ImageLayout.encoder` -> what makes it."""
