"""The record that describes how images are cut up for a vision encoder, and short ones of it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Literal

from mm_api.documents.model_facts import VisionFacts

ACTS, REFUSED = "acts", "refused"

FIXED_SIZE_FACTOR = 1.25
"""Room for fragmentation in the CUDA pool when every output has one size; 1.5 when sizes vary."""

VARIABLE_SIZE_FACTOR = 1.5


def patches(vision: VisionFacts) -> int:
    return (vision.image_size // vision.patch_size) ** 2


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """How images are cut up, and what they become; a copy may differ in a formula."""

    title: str
    """In docs/design/planning.md."""
    processor: str
    """Key in `mm_runtime.serving.preprocess.processors`."""
    encoder: str | None
    """Key in `mm_runtime.serving.encode.vision.load`; empty: servers of others encode images, and
    rows are counted here. None: the checkpoint's own processor cuts images, in the process of its
    own class, and there is no encoder."""
    engine_tensors: Literal["pixels", "patches", "tiles"] = "pixels"
    """Inputs of a vision engine of TensorRT."""
    file_types: tuple[str, ...] | None = ()
    """`image_processor_type` of transformers, without `Fast`, of processors that cut images so;
    None: any file will do."""
    low: str = ACTS
    """What `image_url.detail` of `low` does."""
    high: str = ACTS
    is_square: bool = False
    """Each image is one square and as many features as any other: images may come to the tower as
    bytes, and features may stay on its GPU, for nothing is put together of them."""
    plain: bool = True
    """The encoder reads pixels of one size and nothing else: no mask."""
    one_side: bool = False
    """The tower has positions for one size of tile."""
    vectors: bool = False
    """Vectors that lie beside the tower go in between features: they end lines or views."""
    rotated: bool = False
    """Positions have three coordinates (M-RoPE), and pixels of an image have bounds."""
    masked: bool = False
    """The vision engine takes an explicit attention mask, positions squared."""
    stores_scores: bool = False
    """Attention stores its scores in programs for torch, too."""
    fixed_features: bool = False
    """Triton's preprocessing model divides the number back from the engine's limits."""
    features_per_image: Callable[[VisionFacts], int] = lambda vision: vision.features_per_image
    """Rows of the prompt table (or encoder tokens) that one image becomes at the most."""
    features_of_several: Callable[[VisionFacts], int] | None = None
    """Rows of each of several images, where those are fewer than one alone becomes."""
    least_features: Callable[[VisionFacts], int] | None = None
    """Rows of an image of one tile: a plan may bound images from there on. None: none may."""
    frame_tokens: Callable[[VisionFacts], int] = lambda _: 0
    """Most tokens around and between the rows of one image, whose number follows its shape."""
    tiles_per_image: Callable[[VisionFacts], int] = lambda vision: vision.max_tiles or 1
    """Entries of the vision engine's batch that one image takes."""
    positions_per_tile: Callable[[VisionFacts], int] = lambda vision: patches(vision) + 1
    """Positions of the vision tower for one entry of its batch."""
    pixels_side: Callable[[VisionFacts], int] = lambda vision: vision.image_size
    """Pixels along the side of a square that one image, or tile, fills at the most."""
    extra_output_bytes: Callable[[int, int, int], int] = lambda _positions, _head, _tokens: 0
    """GPU bytes of a request beside its features, of (positions, head size, encoder tokens)."""
    rows_of_image: Callable[[VisionFacts, int, int], int] | None = None
    """Tokens of an image of a height and width, by the checkpoint's processor, those around its
    features included; 0: it cannot read the image. None: the plan's."""
    video_features: Callable[[VisionFacts, int], int] | None = None
    """Rows that a video of n frames becomes; None: no video."""
    frames_per_tile: int = 1
    """Frames of a video in one entry of the vision engine's batch."""

    @property
    def counts_rows(self) -> bool:
        """Return whether the rows of a request are compared with the plan's."""
        return self.video_features is not None or self.least_features is not None

    @property
    def pool_factor(self) -> float:
        return FIXED_SIZE_FACTOR if self.is_square else VARIABLE_SIZE_FACTOR


SQUARE = ImageLayout(
    "one square each",
    processor="squares",
    encoder="images",
    file_types=(
        "BlipImageProcessor",
        "CLIPImageProcessor",
        "Gemma3ImageProcessor",
        "SiglipImageProcessor",
    ),
    high=REFUSED,
    is_square=True,
    one_side=True,
    fixed_features=True,
)
"""Each image becomes one square, and as many features as any other."""

OWN = ImageLayout(
    "as the checkpoint's own processor cuts them",
    processor="own",
    encoder=None,
    low=REFUSED,
    high=REFUSED,
    plain=False,
)
"""The checkpoint's own processor cuts images, in the process of its own class: no encoder."""


def _features_of_tiles(vision: VisionFacts) -> int:
    # 4 x 1601 = 6404 at 560 pixels, 4 x 1025 = 4100 at 448.
    return (vision.max_tiles or 1) * (patches(vision) + 1)


TILES = ImageLayout(
    "tiles on a canvas, read by cross attention",
    processor="tiles",
    encoder="tiles",
    engine_tensors="tiles",
    file_types=("MllamaImageProcessor",),
    plain=False,
    one_side=True,
    masked=True,
    stores_scores=True,
    fixed_features=True,
    features_per_image=_features_of_tiles,
    # One entry of the batch is a complete image: its tiles attend to each other.
    tiles_per_image=lambda _: 1,
    positions_per_tile=_features_of_tiles,
    # The mask of cross attention is BOOL on the GPU: one byte per token of both sides.
    extra_output_bytes=lambda sequence, _head, tokens: sequence * tokens,
)


def lines_per_image(vision: VisionFacts) -> int:
    """Return the lines of the largest image, each of which a token ends."""
    return vision.image_size // (vision.patch_size * (vision.merge_size or 1))


def _rows_in_lines(vision: VisionFacts, height: int, width: int) -> int:
    """Return the features and the ends of their lines, as PixtralProcessor of transformers.

    0: a strip, of which nothing is left once its longer side fits.
    """
    shrink = max(1.0, max(height, width) / vision.image_size)
    unit = vision.patch_size * (vision.merge_size or 1)
    lines, columns = (ceil(floor(side / shrink) / unit) for side in (height, width))
    return lines * (columns + 1) if columns else 0


LINES = ImageLayout(
    "patches, of any shape, in lines",
    processor="own",
    encoder="",
    low=REFUSED,
    high=REFUSED,
    file_types=("PixtralImageProcessor",),
    plain=False,
    frame_tokens=lines_per_image,
    positions_per_tile=patches,
    rows_of_image=_rows_in_lines,
)
