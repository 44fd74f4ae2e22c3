"""Bounds of videos' frames, as Qwen2VLVideoProcessor reads them."""

from pathlib import Path
from typing import Any

from mm_api.checkpoint.parts import JOINED, PROCESSOR
from mm_runtime.base.chat_template_files import read_object

VIDEO_CONFIG = "video_preprocessor_config.json"
FRAMES = 2
"""Frames that become one patch in time; an image counts twice."""

LONGEST_RATIO = 200
"""Ratio of the longer to the shorter side; transformers refuses more."""

FRAME_PIXELS = (128 * 28 * 28, 28 * 28 * 768)
"""Bounds of each frame, of Qwen2VLVideoProcessor, for checkpoints that do not name them."""


def video_config(folder: Path) -> dict[str, Any]:
    """Return the video processor's configuration; empty: the checkpoint has none."""
    beside: dict[str, Any] = read_object(folder / JOINED).get("video_processor", {})
    return read_object(folder / VIDEO_CONFIG) or beside


def frame_bounds(folder: Path) -> tuple[int, int]:
    """Return the fewest and most pixels of a frame, of video processors with bounds of each.

    As Qwen2VLVideoProcessor of transformers 4.57 reads them: of the image processor's file where
    there is none of videos, and the older two names win.
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
