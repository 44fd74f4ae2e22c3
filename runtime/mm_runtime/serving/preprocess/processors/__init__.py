"""Images of a request to the tensors its family's vision encoder reads.

Belongs here: one module for each way of cutting images up, exactly as the checkpoint's own
processor does it, and the registry. Must not: import torch or transformers, know Triton, fetch.
May import: mm_api, numpy, Pillow.
"""

from collections.abc import Callable, Mapping

from mm_api.families import FAMILIES
from mm_api.families.family import ImageLayout
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.processors.crops import CropProcessor
from mm_runtime.serving.preprocess.processors.ended import EndedProcessor
from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.hd import HdProcessor
from mm_runtime.serving.preprocess.processors.lines import LineProcessor
from mm_runtime.serving.preprocess.processors.numbered import NumberedProcessor
from mm_runtime.serving.preprocess.processors.own import OwnProcessor
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor

_LOADERS: Mapping[ImageLayout, Callable[[EngineDirectory], ImageProcessor]] = {
    ImageLayout.VIEWS: ViewProcessor.load,
    ImageLayout.HD: HdProcessor.load,
    ImageLayout.CROPS: CropProcessor.load,
    ImageLayout.ENDED: EndedProcessor.load,
    ImageLayout.NUMBERED: NumberedProcessor.load,
    ImageLayout.GRID: GridProcessor.load,
    ImageLayout.LINES: LineProcessor.load,
    ImageLayout.TILES: TileProcessor.load,
    ImageLayout.OWN: OwnProcessor.load,
}


def load_processor(engine: EngineDirectory, *, as_videos: bool = False) -> ImageProcessor | None:
    """Return the processor of an engine's family; None: it takes no images.

    Args:
        engine: what is served.
        as_videos: what it returns is read once more, by the checkpoint's video processor.

    Raises:
        OSError, KeyError, ValueError: the checkpoint's configuration is missing or not understood.
    """
    layout, vision = FAMILIES[engine.facts.family].image_layout, engine.vision
    if not engine.sees:
        return None
    if layout is ImageLayout.SQUARE and vision is not None:
        return SquareProcessor.load(engine, vision.features_per_image)
    found = _LOADERS[layout](engine)
    if as_videos and isinstance(found, GridProcessor):
        return found.within_videos(engine.image_processor)
    return found
