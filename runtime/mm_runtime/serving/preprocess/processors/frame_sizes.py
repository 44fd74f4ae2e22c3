"""Videos with a number of pixels for all frames together: the more frames, the smaller each.

The steps and their rounding are those of transformers' Qwen3VLVideoProcessor; tests compare both.
"""

from dataclasses import dataclass
from math import ceil, floor, sqrt
from pathlib import Path
from typing import Any

from mm_api.checkpoint.parts import JOINED, PROCESSOR
from mm_runtime.base.chat_template_files import read_object
from mm_runtime.serving.errors import RequestError

VIDEO_CONFIG = "video_preprocessor_config.json"
FRAMES = 2
"""Frames that become one patch in time; an image counts twice."""

LONGEST_RATIO = 200
"""Ratio of the longer to the shorter side; transformers refuses more."""

PIXELS = (128 * 32 * 32, 32 * 32 * 768)
"""Bounds of all frames, of checkpoints that do not name them."""

FRAME_PIXELS = (128 * 28 * 28, 28 * 28 * 768)
"""Bounds of each frame, of Qwen2VLVideoProcessor, for checkpoints that do not name them."""

_FRAME_TOKENS = 768
_LEAST_SHARE = 1.05


def video_config(folder: Path) -> dict[str, Any]:
    """Return the video processor's configuration; empty: the checkpoint has none.

    Raises:
        OSError, ValueError: a file is not readable, or no JSON object.
    """
    beside: dict[str, Any] = read_object(folder / JOINED).get("video_processor", {})
    return read_object(folder / VIDEO_CONFIG) or beside


def frame_bounds(folder: Path) -> tuple[int, int]:
    """Return the fewest and most pixels of a frame, of video processors with bounds of each.

    As Qwen2VLVideoProcessor of transformers 4.57 reads them: of the image processor's file where
    there is none of videos, and the older two names win.

    Raises:
        OSError, ValueError: a file is not readable, or no JSON object.
    """
    config = read_object(folder / VIDEO_CONFIG) or read_object(folder / PROCESSOR)
    config = config or video_config(folder)
    size = config.get("size") or {}
    names = (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge"))
    least, most = (
        config.get(older) or size.get(newer) or bound
        for (older, newer), bound in zip(names, FRAME_PIXELS, strict=True)
    )
    return int(least), int(most)


@dataclass(frozen=True)
class FrameSizes:
    """Bounds of one checkpoint's videos."""

    unit: int
    """Pixels along a side of what becomes one feature."""

    least_pixels: int
    most_pixels: int

    most_of_frame: int
    """Pixels that the plan has features for."""

    capped: bool = False
    """The checkpoint's processor bounds each frame, too."""

    frame_tokens: int = _FRAME_TOKENS

    @classmethod
    def of(cls, folder: Path, unit: int, most_of_frame: int) -> "FrameSizes":
        """Read them from the video processor's configuration.

        Raises:
            OSError, ValueError: the file is not readable, or no JSON object.
        """
        config = video_config(folder)
        size = config.get("size") or {}
        return cls(
            unit=unit,
            least_pixels=int(size.get("shortest_edge", PIXELS[0])),
            most_pixels=int(size.get("longest_edge", PIXELS[1])),
            most_of_frame=most_of_frame,
            capped=config.get("cap_pixels_per_frame") is True,
            frame_tokens=int(config.get("max_video_tokens", _FRAME_TOKENS)),
        )

    def of_each(self, frames: int, height: int, width: int) -> tuple[int, int]:
        """Return height and width of each of so many frames.

        Raises:
            RequestError: a strip that no size within the bounds resembles.
        """
        unit, frames = self.unit, max(frames, FRAMES)
        if min(height, width) < unit:
            scale = max(unit / height, unit / width)
            height, width = int(height * scale), int(width * scale)
        if max(height, width) / min(height, width) > LONGEST_RATIO:
            raise RequestError(
                f"the video has {width} x {height} pixels: one side is more than {LONGEST_RATIO} "
                "times the other, which this model cannot read; cut it"
            )
        most = min(self._most(frames), self.most_of_frame * frames)
        least = min(self.least_pixels, most)
        high, wide = (round(side / unit) * unit for side in (height, width))
        pixels = round(frames / FRAMES) * FRAMES * high * wide
        if pixels > most:
            shrink = sqrt(frames * height * width / most)
            high, wide = (max(unit, floor(side / shrink / unit) * unit) for side in (height, width))
        elif pixels < least:
            grow = sqrt(least / (frames * height * width))
            high, wide = (ceil(side * grow / unit) * unit for side in (height, width))
        return high, wide

    def _most(self, frames: int) -> int:
        if not self.capped:
            return self.most_pixels
        share = min(self.frame_tokens * self.unit**2, self.most_pixels // frames)
        return max(share, int(self.least_pixels * _LEAST_SHARE)) * frames
