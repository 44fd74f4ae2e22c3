"""Qwen2-VL: an image keeps its shape, rounded to multiples of a block of patches within bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, sqrt
from pathlib import Path
from sys import maxsize
from typing import Any

import numpy as np
from PIL import Image

from mm_api.families import FAMILIES
from mm_runtime.images.normalisation import Values
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.frame_sizes import (
    FRAMES,
    LONGEST_RATIO,
    frame_bounds,
)
from mm_runtime.serving.preprocess.processors.prepared import (
    LOW_SIDE,
    NO_VIDEO,
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    Size,
    bounded,
    shrunk,
)

LOW_PIXELS = LOW_SIDE**2

_ROUNDING = 4
"""Sides are rounded to blocks, each by less than twice; `prepare` would enlarge what has become
smaller than its least."""

_KEPT_FRAME = 2
"""A frame that `prepare_video` has to resize is scaled down first above so many times the most
pixels; all frames of a video are in memory together."""


@dataclass(frozen=True)
class GridProcessor(ImageProcessor):
    """Bounds and colours of one checkpoint."""

    colours: Colours
    patch: int
    merge: int
    least_pixels: int
    most_pixels: int
    shown_pixels: int | None = None
    """Most pixels that an image is reduced to; None: `most_pixels`."""
    resized_there: bool = False
    """Whether an image whose sides are only rounded stays as it is: the server's own processor
    rounds them, and Pillow takes 18 ms for 1280 x 720."""
    video: bool = True
    frames: "GridProcessor | None" = None
    """That of a video's frames; None: this one."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "GridProcessor":
        """Read the checkpoint's configuration."""
        vision, plan = engine.facts.vision, engine.vision
        if vision is None or vision.min_pixels is None or vision.max_pixels is None:
            raise ValueError(f"{engine.root}: the facts of a Qwen2-VL have no bounds of pixels")
        patch, merge = vision.patch_size, vision.merge_size or 2
        family = FAMILIES[engine.facts.family]
        # The plan counted on no more rows an image than these, whatever the checkpoint allows.
        planned = plan.features_per_image * (patch * merge) ** 2 if plan else 0
        most = min(vision.max_pixels, planned or vision.max_pixels)
        return cls(
            colours=Colours.of(read_config(engine.image_processor), Image.Resampling.BICUBIC),
            patch=patch,
            merge=merge,
            least_pixels=min(vision.min_pixels, most),
            most_pixels=most,
            video=family.layout.video_features is not None,
        )

    def within_videos(self, folder: Path) -> "GridProcessor":
        """Return the processor of sizes that the checkpoint's video processor keeps, too.

        Raises:
            OSError, ValueError: its configuration cannot be read, or keeps none of these sizes.
        """
        least, most = frame_bounds(folder)
        bounds = max(least, self.least_pixels), min(most, self.most_pixels)
        if bounds[0] > bounds[1]:
            raise ValueError(
                f"{folder}: an image has {self.least_pixels} to {self.most_pixels} pixels, and a"
                f" frame of a video {least} to {most}: no size is both"
            )
        return replace(self, least_pixels=bounds[0], most_pixels=bounds[1])

    def with_detail(self, detail: Detail, count: int) -> "GridProcessor":
        """Return the processor of at most `LOW_PIXELS` for low detail."""
        del count
        if detail != "low" or self.most_pixels <= LOW_PIXELS:
            return self
        if self.least_pixels * _ROUNDING > LOW_PIXELS:
            raise RequestError(
                f"`low` is at most {LOW_PIXELS} pixels, and an image has {self.least_pixels} at "
                "the least"
            )
        return replace(self, shown_pixels=LOW_PIXELS)

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        unit = self.patch * self.merge
        rounded = [self.rounded(*size) for size in sizes]
        return tuple(height * width // unit**2 for height, width in rounded)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image in the size its patches are cut from, or as it is.

        Where the bounds are close, or an image is a strip, rounding leads beyond a bound, and
        `prepare` would resize what has that size again.
        """
        del count  # each is cut by itself
        return self._resized(image) or bounded(image, self.most_pixels)

    def keeps(self, width: int, height: int) -> bool:
        """Return whether the server's own processor resizes an image of that size as `prepare`."""
        most = self.shown_pixels or self.most_pixels
        size = self._within(height, width, self.least_pixels, most)
        return (
            self.resized_there
            and width * height <= self.most_pixels
            and size == self._within(height, width, 0, maxsize)
        )

    def video_rows(self, frames: int, size: Size) -> int:
        if not self.video:
            raise NO_VIDEO
        height, width = (self.frames or self).rounded(*size)
        return ceil(frames / FRAMES) * (height * width // (self.patch * self.merge) ** 2)

    def reduced_frame(self, frame: Image.Image) -> Image.Image:
        """Return a frame in the size its patches are cut from."""
        if not self.video:
            raise NO_VIDEO
        if self.frames is not None:
            return self.frames.reduced_frame(frame)
        return self._resized(frame) or shrunk(frame, self.most_pixels * _KEPT_FRAME)

    def _resized(self, image: Image.Image) -> Image.Image | None:
        """Return the image as `prepare` leaves it; None: it would resize that again."""
        if self.keeps(*image.size):
            return image
        most = self.shown_pixels or self.most_pixels
        size = self._within(image.height, image.width, self.least_pixels, most)
        if self.rounded(*size) == size:
            return image.resize(size[::-1], resample=self.colours.resample)
        if most != self.most_pixels:
            raise RequestError(
                f"no size of {self.least_pixels} to {most} pixels resembles the image, which has "
                f"{image.width} x {image.height}: leave the detail out, or cut it"
            )
        return None

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [1, patches of all, values] and `IMAGE_GRID_THW`, three each."""
        return self._prepared(
            [([image], self.rounded(image.height, image.width)) for image in images]
        )

    def prepare_video(self, frames: list[Image.Image]) -> Prepared:
        """Return the same of one video; an odd last frame counts twice."""
        if not self.video:
            raise NO_VIDEO
        even = [*frames, *frames[-1:]] if len(frames) % FRAMES else frames
        return self._prepared([(even, self.rounded(frames[0].height, frames[0].width))])

    def _prepared(self, clips: list[tuple[list[Image.Image], tuple[int, int]]]) -> Prepared:
        """Return the patches of clips of an even number of frames, or of one that counts twice.

        Clips have frames, and the height and width that they are resized to.
        """
        patches, grids = [], []
        for clip, (height, width) in clips:
            shown = [self._frame(frame, height, width) for frame in clip]
            frames = np.stack(shown * FRAMES if len(shown) == 1 else shown)
            patches.append(self._patches(frames))
            grids.append((len(frames) // FRAMES, height // self.patch, width // self.patch))
        tensors: dict[str, Any] = {
            "PIXEL_VALUES": np.concatenate(patches)[None, None],
            "IMAGE_GRID_THW": np.array(grids, dtype=np.int64).reshape(-1),
        }
        rows = tuple(t * h * w // self.merge**2 for t, h, w in grids)
        return Prepared(tensors, rows)

    def _frame(self, frame: Image.Image, height: int, width: int) -> Values:
        return self.colours.normalised(
            frame.resize((width, height), resample=self.colours.resample)
        )

    def rounded(self, height: int, width: int) -> tuple[int, int]:
        return self._within(height, width, self.least_pixels, self.most_pixels)

    def _within(self, height: int, width: int, least: int, most: int) -> tuple[int, int]:
        if max(height, width) / min(height, width) > LONGEST_RATIO:
            raise RequestError(
                f"the image has {width} x {height} pixels: one side is more than {LONGEST_RATIO} "
                "times the other, which this model cannot read; cut it"
            )
        unit = self.patch * self.merge
        high, wide = (round(side / unit) * unit for side in (height, width))
        if high * wide > most:
            shrink = sqrt(height * width / most)
            high, wide = (max(unit, floor(side / shrink / unit) * unit) for side in (height, width))
        elif high * wide < least:
            grow = sqrt(least / (height * width))
            high, wide = (ceil(side * grow / unit) * unit for side in (height, width))
        return high, wide

    def _patches(self, frames: Values) -> Values:
        """Return patches [n, values] of frames [time, 3, height, width], merged ones together."""
        time, channels, height, width = frames.shape
        blocks = frames.reshape(
            *(time // FRAMES, FRAMES, channels),
            *(height // self.patch // self.merge, self.merge, self.patch),
            *(width // self.patch // self.merge, self.merge, self.patch),
        )
        ordered = blocks.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
        return ordered.reshape(-1, channels * FRAMES * self.patch**2)
