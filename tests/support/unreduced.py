"""Images as they are: a processor whose patches are pixels. Decoders can import it."""

from PIL import Image

from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours

UNREDUCED = GridProcessor(
    Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC),
    patch=1,
    merge=1,
    least_pixels=1,
    most_pixels=10**9,
)
