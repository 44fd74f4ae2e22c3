"""Images for a server that reads every medium as a video: as the image processor would read them.

transformers' Qwen2VLVideoProcessor has bounds of its own and resizes what is beyond them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import Qwen2VLImageProcessorPil, Qwen2VLVideoProcessor

from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours

UNIT = 28
BOUNDS = (4 * UNIT**2, 64 * UNIT**2)
NARROWER: dict[str, Any] = {"size": {"shortest_edge": 12 * UNIT**2, "longest_edge": 30 * UNIT**2}}


def of_images() -> GridProcessor:
    colours = Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC)
    return GridProcessor(colours, 14, 2, *BOUNDS)


def written(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        (folder / f"{name}_config.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("files", "bounds"),
    [
        ({"preprocessor": {"min_pixels": 9408, "max_pixels": 40000}}, (9408, 40000)),
        ({"preprocessor": {"min_pixels": 1, "max_pixels": 10**8}}, BOUNDS),
        (
            {"preprocessor": {"max_pixels": 10**8}, "video_preprocessor": NARROWER},
            (12 * UNIT**2, 30 * UNIT**2),
        ),
        ({"processor": {"video_processor": {"min_pixels": 9408}}}, (9408, 64 * UNIT**2)),
    ],
    ids=["images-of-both", "wider", "videos-own", "in-one-file"],
)
def test_sizes_are_within_both(
    tmp_path: Path, files: dict[str, object], bounds: tuple[int, int]
) -> None:
    """The narrower bound counts, from the file that transformers reads."""
    if "processor" in files:  # where nothing says it, a frame has 602,112 pixels at the most
        assert BOUNDS[1] < 768 * UNIT**2
    found = of_images().within_videos(written(tmp_path, **files))
    assert (found.least_pixels, found.most_pixels) == bounds


def test_bounds_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    files = {"preprocessor": {"min_pixels": 65 * UNIT**2, "max_pixels": 10**8}}
    with pytest.raises(ValueError, match="no size is both"):
        of_images().within_videos(written(tmp_path, **files))


@pytest.mark.parametrize("size", [(300, 200), (28, 28), (1000, 90), (31, 64)])
def test_a_frame_has_the_patches_of_the_image(tmp_path: Path, size: tuple[int, int]) -> None:
    """Whatever its size was, the video processor leaves it, and cuts it as the image's does."""
    processor = of_images().within_videos(written(tmp_path, video_preprocessor=NARROWER))
    noise = np.random.default_rng(1).integers(0, 256, (*size[::-1], 3), np.uint8)
    image = processor.reduced(Image.fromarray(noise), 1)
    frames = np.stack([np.asarray(image)] * 2).transpose(0, 3, 1, 2)
    videos: Any = Qwen2VLVideoProcessor(**NARROWER)
    images: Any = Qwen2VLImageProcessorPil(min_pixels=BOUNDS[0], max_pixels=BOUNDS[1])
    read = videos([frames], return_tensors="np")
    wanted = images([image], return_tensors="np")

    assert read["video_grid_thw"].tolist() == wanted["image_grid_thw"].tolist()
    assert read["video_grid_thw"][0][1:].tolist() == [image.height // 14, image.width // 14]
    np.testing.assert_allclose(read["pixel_values_videos"], wanted["pixel_values"], atol=1e-5)
