"""Images of a request to the tensors its family's vision encoder reads.

Belongs here: one module for each way of cutting images up, exactly as the checkpoint's own
processor does it, and the registry. Must not: import torch or transformers, know Triton, fetch.
May import: mm_api, numpy, Pillow.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from mm_api.families import FAMILIES
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.own import OwnProcessor
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor

LOADERS: Mapping[str, Callable[[EngineDirectory], ImageProcessor]] = {
    "squares": SquareProcessor.load,
    "views": ViewProcessor.load,
    "grids": GridProcessor.load,
    "tiles": TileProcessor.load,
    "own": OwnProcessor.load,
}
"""`ImageLayout.processor` -> what loads it."""


def load_processor(
    engine: EngineDirectory,
    *,
    frames_there: bool = False,
    resized_there: bool = False,
) -> ImageProcessor | None:
    """Return the processor of an engine's family; None: it takes no images.

    `frames_there`: frames are read once more, by the checkpoint's video processor.
    `resized_there`: images are, by its image processor, to which one goes as it is where that is
    cheap.

    Raises:
        OSError, KeyError, ValueError: the checkpoint's configuration is missing or not understood.
    """
    if not engine.sees:
        return None
    found = LOADERS[FAMILIES[engine.facts.family].layout.processor](engine)
    if not isinstance(found, GridProcessor):
        return found
    found = replace(found, resized_there=resized_there)
    frames = found.within_videos(engine.image_processor) if frames_there else None
    return replace(found, frames=frames)
