"""From the folder that TensorRT-LLM's vision builder wrote to the runner of a family's engine.

`tensorrt` and torch are imported when an engine is opened: the image of the Reference engine has
no TensorRT, and torch takes seconds.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import ImageLayout
from mm_runtime.serving.encode.vision.builder_tensors import INPUT, Patches, Pixels, Tiles
from mm_runtime.serving.encode.vision.runner import Runner

ENGINES = ("model.engine", "visual_encoder.engine")
"""Names of the file; the second is MLLAMA's up to 0.18."""

NEWLINES = "image_newlines.safetensors"


def open_tensorrt(
    folder: Path, layout: ImageLayout, vision: VisionFacts, *, keeps: bool = False
) -> Runner:
    """Load a vision engine.

    Args:
        folder: what the build wrote.
        layout: how the family's images are cut up.
        vision: sizes of the tower.
        keeps: features stay on the GPU, of families that have them as the engine gives them out.

    Raises:
        OSError: there is no engine.
        ValueError: TensorRT is missing or cannot load the engine.
    """
    try:
        from mm_runtime.serving.encode.vision.tensorrt_runner import (  # noqa: PLC0415 (see above)
            TensorRTEngine,
            TensorRTRunner,
        )
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{folder}: this image has no Python module {error.name}, which runs vision engines of"
            " TensorRT; serve it in an image made from NVIDIA's tritonserver with TensorRT-LLM"
        ) from error

    def tensors(engine: TensorRTEngine) -> Pixels | Tiles | Patches:
        match layout:
            case ImageLayout.TILES:
                return Tiles()
            case ImageLayout.GRID:
                heads = vision.attention_heads or 1
                merged = (vision.merge_size or 2) ** 2
                return Patches(vision.hidden_size // heads, engine.least(INPUT), merged)
            case _:
                return Pixels()

    found = (folder / name for name in ENGINES if (folder / name).is_file())
    return TensorRTRunner(next(found, folder / ENGINES[0]), tensors, keeps=keeps)


def read_newline(folder: Path) -> NDArray[np.float32]:
    """Return the vector [hidden] that ends each row of patches, as the vision builder kept it.

    Raises:
        OSError, KeyError: there is none.
    """
    from safetensors.numpy import load_file  # noqa: PLC0415 (of TensorRT-LLM's image)

    newline: NDArray[np.float32] = load_file(folder / NEWLINES)["image_newline"].astype(np.float32)
    return newline
