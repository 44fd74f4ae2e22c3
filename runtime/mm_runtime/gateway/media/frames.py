"""What decoding the frames of a video may cost, and what is held of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.images.media import BadImageError

Keep = Callable[[Image.Image], Image.Image]
"""A frame -> what is held of it until the last one is decoded."""


@dataclass(frozen=True, slots=True)
class Clip:
    """The frames that are kept of a video."""

    frames: list[Image.Image]
    seconds: float | None
    """Length of the entire video; None: the file has none."""


@dataclass(frozen=True, slots=True)
class Video:
    """A video as the engine gets it."""

    pixels: NDArray[np.uint8]
    """uint8[frames, height, width, 3]."""

    seconds: float | None = None
    """Length of the entire video; None: the file has none, or the model does not read times."""

    @property
    def nbytes(self) -> int:
        return self.pixels.nbytes


def are_steady(times: Sequence[float], seconds: float) -> bool:
    """Return whether frames are shown at a constant rate: each within half an interval of it."""
    if not times:
        return True
    even = np.linspace(0, seconds, len(times), endpoint=False)
    return bool(np.abs(np.asarray(times) - even).max() * 2 < seconds / len(times))


def same(frame: Image.Image) -> Image.Image:
    return frame


class PixelBudget:
    """Pixels that may be decoded of one video, whether its frames are kept or not."""

    def __init__(self, most: int, frames: int) -> None:
        self._most = most
        self._frames = frames
        self._spent = 0

    def check(self, size: tuple[int, int]) -> None:
        """Refuse before anything is decoded, if all frames are as large as announced."""
        self._refuse_above(self._frames * size[0] * size[1], size)

    def spend(self, size: tuple[int, int]) -> None:
        """Count one frame as it is; frames may grow in mid-stream.

        Raises:
            BadImageError: all frames so far are too many pixels together.
        """
        self._spent += size[0] * size[1]
        self._refuse_above(self._spent, size)

    def _refuse_above(self, pixels: int, size: tuple[int, int]) -> None:
        if pixels > self._most:
            width, height = size
            raise BadImageError(
                f"the video is too long for its size: {self._frames} frames of {width} x {height} "
                f"are more than {self._most} pixels; send a shorter or smaller one"
            )
