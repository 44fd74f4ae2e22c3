"""From a folder with a vision engine of TensorRT to what runs it.

`tensorrt` and torch are imported when an engine is opened: the image of the Reference engine has
no TensorRT, and torch takes seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import ImageLayout
from mm_api.sentences import a
from mm_runtime.serving.encode.vision.builder_tensors import (
    INPUT,
    EngineTensors,
    Patches,
    Pixels,
    Tiles,
)
from mm_runtime.serving.encode.vision.runner import Runner

ENGINES = ("model.engine", "visual_encoder.engine")
"""Names of the file; the second is MLLAMA's up to 0.18."""

NEWLINES = "image_newlines.safetensors"


@contextmanager
def tensorrt_of_image(folder: Path) -> Iterator[None]:
    """Import what runs engines of TensorRT.

    Raises:
        ValueError: TensorRT is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{folder}: this image has no Python module {error.name}, which runs vision engines of"
            " TensorRT; serve it in an image made from NVIDIA's tritonserver with TensorRT-LLM or,"
            " on backend Reference, in one that holds the TensorRT of the build"
        ) from error


def check_origin(folder: Path, manifest: EngineManifest) -> None:
    """Refuse an engine of ours that this TensorRT or this GPU would load wrongly, or not at all.

    Raises:
        ValueError: it was built by another version, or on another kind of GPU.
    """
    with tensorrt_of_image(folder):
        here = import_module("tensorrt").__version__
    from mm_runtime.serving.device import compute_capability  # noqa: PLC0415 (torch)

    capability = compute_capability()
    if (built := manifest.versions.get("tensorrt")) != here:
        raise ValueError(
            f"{folder}: TensorRT {built} built this engine, and this image has {here}, which runs"
            " no other's: set spec.build.image and spec.runtime.image to images of one version"
        )
    if capability and manifest.gpu and capability != manifest.gpu.compute_capability:
        raise ValueError(
            f"{folder}: this engine was built on {a(manifest.gpu.product)}"
            f" ({manifest.gpu.compute_capability}), and this GPU has compute capability"
            f" {capability}: set spec.runtime.gpu.product to what serves"
        )


def open_tensorrt(
    folder: Path, layout: ImageLayout, vision: VisionFacts, *, keeps: bool = False
) -> Runner:
    """Load a vision engine.

    `layout`: how the family's images are cut up. `keeps`: features stay on the GPU, of families
    that have them as the engine gives them out.

    Raises:
        OSError: there is no engine.
        ValueError: TensorRT is missing or cannot load the engine.
    """
    with tensorrt_of_image(folder):
        from mm_runtime.serving.encode.vision.tensorrt_runner import (  # noqa: PLC0415 (see above)
            TensorRTEngine,
            TensorRTRunner,
        )

    def tensors(engine: TensorRTEngine) -> EngineTensors:
        match layout.engine_tensors:
            case "tiles":
                return Tiles()
            case "patches":
                heads = vision.attention_heads or 1
                merged = (vision.merge_size or 2) ** 2
                return Patches(vision.hidden_size // heads, engine.least(INPUT)[0], merged)
            case "pixels":
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
