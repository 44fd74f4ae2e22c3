"""Images that come as their bytes, and become a tower's input where the tower runs.

An image of bytes is half of one of 16 bits, on its way between two models and for the digest that
names it; one whose features are known is never normalised at all.
"""

import numpy as np

from mm_api.families import FAMILIES
from mm_runtime.images.normalisation import Normalisation
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision.runner import Inputs, Rows, Runner

PIXELS = "pixel_values"
"""Input of a runner: float16 or float32 [batch, 3, side, side], or uint8 [batch, side, side, 3]."""


def normalisation_of(engine: EngineDirectory) -> Normalisation | None:
    """Return how an engine's images are normalised; None where they never come as bytes.

    Raises:
        OSError, KeyError, ValueError: the image processor's configuration is not understood.
    """
    if not FAMILIES[engine.facts.family].layout.is_square:
        return None
    return Normalisation.of(read_config(engine.image_processor))


class NormalisingRunner:
    """A runner that takes bytes, too: they are normalised on the processor."""

    def __init__(self, runner: Runner, normalisation: Normalisation) -> None:
        self._runner, self._normalisation = runner, normalisation

    def __call__(self, inputs: Inputs) -> Rows:
        pixels = inputs[PIXELS]
        if pixels.dtype == np.uint8:
            inputs = {**inputs, PIXELS: self._normalisation.of_images(pixels)}
        return self._runner(inputs)
