"""Features per image: the numbers that upstream's server divides back or checks."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm_api.documents.model_facts import VisionFacts
from mm_api.families import FAMILIES
from mm_api.families.image_layouts.views import grid_tokens
from mm_api.families.llava_onevision import video_features
from support.cases import cases
from support.model_configs import (
    FIXED_FEATURES,
    MODELS,
    WITH_ENGINES,
    WITH_IMAGES,
    facts_of,
    planned,
)

VIEWS = [name for name in WITH_IMAGES if FAMILIES[name].layout.processor == "views"]


def vision_of(family: str) -> VisionFacts:
    vision = facts_of(family).vision
    assert vision is not None
    return vision


@pytest.mark.parametrize("family", WITH_IMAGES)
def test_features_per_image(family: str) -> None:
    found = FAMILIES[family].layout.features_per_image(vision_of(family))

    assert MODELS[family].features_per_image == found


def test_smaller_images_of_mllama() -> None:
    """The base model's 448 pixels are 4 x 1025 encoder tokens."""
    small = vision_of("mllama").model_copy(update={"image_size": 448})

    assert FAMILIES["mllama"].layout.features_per_image(small) == 4100


def test_qwen2_vl_images_of_the_client() -> None:
    """The upstream client's 504 x 504 pixels are 324 tokens."""
    bounded = vision_of("qwen2-vl").model_copy(update={"max_pixels": 504 * 504})

    assert FAMILIES["qwen2-vl"].layout.features_per_image(bounded) == 324


def test_the_smallest_image_of_qwen2_vl_is_one_token() -> None:
    config = MODELS["qwen2-vl"].files["config.json"]

    found = FAMILIES["qwen2-vl"].read(config, {"min_pixels": 28, "max_pixels": 28 * 27})

    assert found.vision is not None
    assert found.vision.features_per_image == 1


@pytest.mark.parametrize(("frames", "expected"), [(8, 1569), (32, 6273)], ids=["8", "32"])
def test_video(frames: int, expected: int) -> None:
    assert video_features(vision_of("llava-onevision"), frames) == expected


def tokens_of_image(vision: VisionFacts, height: int, width: int) -> int:
    """Return what transformers makes of one image: best grid, unpadding, shrinking."""
    side, pixels = vision.image_size // vision.patch_size, vision.image_size

    def fit(grid: tuple[int, int]) -> tuple[int, int]:
        scale = min(grid[1] / width, grid[0] / height)
        used = int(width * scale) * int(height * scale)
        effective = min(used, width * height)
        return effective, effective - grid[0] * grid[1]

    rows, columns = max(vision.grid_pinpoints or [], key=fit)
    rows, columns = rows // pixels * side, columns // pixels * side
    if width / height > columns / rows:
        padding = (rows - int(round(height * (columns / width), 7))) // 2
        rows -= 2 * padding
    else:
        padding = (columns - int(round(width * (rows / height), 7))) // 2
        columns -= 2 * padding
    return side**2 + grid_tokens(rows, columns, side=side, limit=vision.grid_limit)


@cases(
    "height width expected",
    {
        "worst": (1168, 960, 8765),
        "full-hd": (1080, 1920, 7269),
        "vga": (480, 640, 2929),
        "one-tile": (384, 384, 1485),
        "most-tiles": (2304, 2304, 7371),
    },
)
def test_images_of_onevision(height: int, width: int, expected: int) -> None:
    """Sizes whose tokens are known; they prove the reference of the next test."""
    assert tokens_of_image(vision_of("llava-onevision"), height, width) == expected


@pytest.mark.parametrize("family", VIEWS)
@given(height=st.integers(16, 4096), width=st.integers(16, 4096))
def test_no_image_is_above_the_bound(family: str, height: int, width: int) -> None:
    vision = vision_of(family)
    bound = FAMILIES[family].layout.features_per_image(vision)

    assert tokens_of_image(vision, height, width) <= bound


@given(height=st.integers(1, 200), width=st.integers(1, 200))
def test_shrunk_grids_stay_near_their_limit(height: int, width: int) -> None:
    tokens = grid_tokens(height, width, side=27, limit=9)

    assert sqrt(max(0, tokens - height) / (9 * 27**2)) <= 1.1001


@pytest.mark.parametrize("family", FIXED_FEATURES)
@given(batch=st.integers(1, 64), images=st.integers(1, 4))
def test_the_server_divides_the_features_back(family: str, batch: int, images: int) -> None:
    """MaxMultimodalLen is exact: a padded one would insert too many placeholder ids."""
    tokens = 4096 if family != "blip2-opt" else 2048
    limits = planned(
        family,
        {"maxBatchSize": batch, "maxImagesPerRequest": images, "maxSeqLen": tokens},
        gpu="b200-180gb",
    ).limits
    assert limits is not None

    divided = limits.max_multimodal_len // batch // images
    assert (divided, limits.max_multimodal_len % (batch * images)) == (limits.features_per_image, 0)


@cases(
    "family engine expected",
    {
        "blip2-opt": ("blip2-opt", {}, 256),
        "llava": ("llava", {}, 4608),
        "vila-four-images": ("vila", {"maxImagesPerRequest": 4}, 6272),
        "mllama-has-no-table": ("mllama", {}, 0),
        "qwen2-vl": ("qwen2-vl", {"maxBatchSize": 4}, 4 * 1296),
    },
)
def test_rows_of_the_table(family: str, engine: dict[str, int], expected: int) -> None:
    limits = planned(family, engine).limits
    assert limits is not None
    assert limits.max_multimodal_len == expected


@pytest.mark.parametrize("family", sorted({*WITH_IMAGES} & {*WITH_ENGINES}))
def test_every_image_family_has_a_vision_engine(family: str) -> None:
    assert [engine.name for engine in planned(family).engines] == ["llm", "vision"]
