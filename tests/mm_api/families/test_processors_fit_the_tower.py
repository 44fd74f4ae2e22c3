"""Image processors, lines and tiles: read as transformers does, refused beside another tower."""

from pathlib import Path
from typing import Any

import pytest

from mm_api.checkpoint.parts import processor_of
from mm_api.checkpoint.values import CheckpointError
from mm_api.families import FAMILIES
from mm_api.families.image_layouts import LINES, NUMBERED
from mm_api.families.processor_files import check_processor
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_ctl.documents import UsageError
from mm_runtime.inspect.checkpoint import InspectOptions
from support.model_configs import MODELS, WITH_IMAGES, facts_of, folder_of, planned

OF_PIXELS = ("qwen2-vl", "qwen2-5-vl", "qwen3-vl", "qwen2-5-omni")
FILE = "preprocessor_config.json"


def _files(family: str) -> dict[str, Any]:
    return MODELS[family].files


@pytest.mark.parametrize("family", WITH_IMAGES)
def test_published_files_fit(family: str) -> None:
    facts = facts_of_folder(folder_of(family), InspectOptions())
    files = _files(family)

    check_processor(FAMILIES[family], facts.vision, processor_of(lambda name: files.get(name, {})))


@pytest.mark.parametrize("family", OF_PIXELS)
def test_bounds_that_transformers_writes(family: str) -> None:
    """Transformers 5 writes `size` where earlier versions wrote `min_pixels` and `max_pixels`."""
    given = {**_files(family)[FILE], "size": {"shortest_edge": 3136, "longest_edge": 200_704}}
    newer = {key: value for key, value in given.items() if key not in {"min_pixels", "max_pixels"}}
    config = _files(family)["config.json"]

    vision = FAMILIES[family].read(config, newer).vision
    both = FAMILIES[family].read(config, {**newer, "max_pixels": 401_408}).vision

    assert vision is not None
    assert both is not None
    assert (vision.min_pixels, vision.max_pixels) == (3136, 200_704)
    assert (both.min_pixels, both.max_pixels) == (3136, 401_408)


@pytest.mark.parametrize("family", OF_PIXELS)
def test_bounds_that_contradict_each_other(family: str) -> None:
    """Neither bound would be the one that acts."""
    given = {**_files(family)[FILE], "min_pixels": 3136, "max_pixels": 100}

    with pytest.raises(CheckpointError, match=r"images of 3136 pixels .* to 100 "):
        FAMILIES[family].read(_files(family)["config.json"], given)


@pytest.mark.parametrize(
    ("family", "changes", "words"),
    [
        ("llava", {"crop_size": {"height": 448, "width": 448}}, "vision_config.image_size is 336"),
        ("llava", {"do_center_crop": False}, None),
        ("llava", {"do_center_crop": False, "size": 224}, "size is 224"),
        (
            "llava",
            {"do_pad": True, "image_processor_type": "LlavaImageProcessor"},
            "do_pad is true",
        ),
        ("llava", {"do_pad": True}, None),
        ("internvl", {"size": {"height": 512, "width": 512}}, "vision_config.image_size is 448"),
        ("mllama", {"size": {"height": 448, "width": 448}}, "vision_config.image_size is 560"),
        ("llava-next", {"crop_size": {"height": 384, "width": 384}}, "image_size is 336"),
        ("qwen2-5-vl", {"patch_size": 16}, "patch_size is 16, and the tower of config.json has 14"),
        ("qwen2-5-vl", {"merge_size": 4}, "merge_size is 4"),
        ("qwen2-5-vl", {"image_processor_type": "CLIPImageProcessor"}, "cut by Qwen2VLImageProc"),
        ("qwen2-5-vl", {"image_processor_type": "Qwen2VLImageProcessorFast"}, None),
        ("llava", {"image_processor_type": "PixtralImageProcessor"}, "BlipImageProcessor or CLIP"),
        ("llava", {"image_processor_type": "OwnImageProcessor"}, None),
    ],
)
def test_files_of_two_checkpoints(family: str, changes: dict[str, Any], words: str | None) -> None:
    record, files = FAMILIES[family], _files(family)
    vision = record.read(files["config.json"], files[FILE]).vision
    given = {**files[FILE], **changes}
    if words is None:
        check_processor(record, vision, given)
        return

    with pytest.raises(CheckpointError, match=words):
        check_processor(record, vision, given)


def test_sections_come_first() -> None:
    """As in transformers; a section that is not there leaves the other file in force."""
    own = {"size": {"shortest_edge": 336}, "crop_size": None}
    files: dict[str, dict[str, Any]] = {
        FILE: own,
        "processor_config.json": {
            "processor_class": "LlavaProcessor",
            "image_processor": {"size": 336, "crop_size": 336, "resample": 3},
            "feature_extractor": {"hop_length": 160},
        },
    }

    found = processor_of(lambda name: files.get(name, {}))
    assert found == {"size": 336, "crop_size": 336, "resample": 3, "hop_length": 160}
    files["processor_config.json"] = {"processor_class": "LlavaProcessor"}
    assert processor_of(lambda name: files.get(name, {})) == own


def test_files_that_differ() -> None:
    files: dict[str, dict[str, Any]] = {
        FILE: {"size": {"shortest_edge": 336}, "image_mean": [0.5], "processor_class": "A"},
        "processor_config.json": {
            "image_processor": {"size": {"shortest_edge": 224}, "image_mean": [0.5]}
        },
    }

    with pytest.raises(CheckpointError, match=r"differ in size: .*336.*in the first and .*224"):
        processor_of(lambda name: files.get(name, {}))


def test_plans_refuse_them(tmp_path: Path) -> None:
    folder = MODELS["qwen2-5-vl"].write(tmp_path)
    (folder / FILE).write_text('{"patch_size": 16}')

    with pytest.raises(UsageError, match="patch_size is 16"):
        facts_of_folder(folder, InspectOptions())


LINES, NUMBERED = (
    [name for name in WITH_IMAGES if FAMILIES[name].layout.title == layout.title]
    for layout in (LINES, NUMBERED)
)


SIZES: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "patch": (LINES, {"patch_size": {"height": 9, "width": 9}}, "of two checkpoints"),
    "oblong": (LINES, {"patch_size": {"height": 14, "width": 16}}, "two checkpoints"),
    "smaller": (LINES, {"size": {"longest_edge": 560}}, "expected vision_config.image_size"),
    "no-number": (LINES + NUMBERED, {"size": {"longest_edge": "all"}}, "whole number"),
    "tile": (NUMBERED, {"max_image_size": {"longest_edge": 100}}, "expected vision_config"),
    "odd-tiles": (NUMBERED, {"size": {"longest_edge": 1000}}, "expected a multiple"),
    "too-many-tiles": (NUMBERED, {"size": {"longest_edge": 46_592}}, "up to 4096"),
}


@pytest.mark.parametrize(
    ("family", "processor", "words"),
    [
        pytest.param(family, processor, words, id=f"{name}-{family}")
        for name, (families, processor, words) in SIZES.items()
        for family in families
    ],
)
def test_sizes_that_do_not_fit(family: str, processor: dict[str, Any], words: str) -> None:
    files = MODELS[family].files
    given = {**files["preprocessor_config.json"], **processor}

    with pytest.raises(CheckpointError, match=words):
        FAMILIES[family].read(files["config.json"], given)


@pytest.mark.parametrize("family", LINES)
def test_the_ends_of_lines_count(family: str) -> None:
    """A prompt that holds the features alone does not hold the tokens that end their lines."""
    vision = facts_of(family).vision
    assert vision is not None
    record = FAMILIES[family]
    needed = vision.features_per_image + record.layout.frame_tokens(vision) + record.template_tokens

    found = [
        [error.code for error in planned(family, {"maxInputLen": length}).errors]
        for length in (needed, needed + 1)
    ]

    assert found == [["InputLenTooShort"], []]


@pytest.mark.parametrize("family", NUMBERED)
def test_images_that_are_not_split(family: str) -> None:
    """Without splitting an image is its view: one tile's features and the tokens around them."""
    files = MODELS[family].files
    given = {**files["preprocessor_config.json"], "do_image_splitting": False}
    vision = FAMILIES[family].read(files["config.json"], given).vision
    assert vision is not None

    assert FAMILIES[family].layout.features_per_image(vision) == vision.features_per_image
    assert FAMILIES[family].layout.frame_tokens(vision) == 4


@pytest.mark.parametrize("family", NUMBERED)
def test_tokens_of_the_largest_grid(family: str) -> None:
    """Two for each of 4 x 4 tiles, four ends of rows, and at most four around the view."""
    vision = facts_of(family).vision
    assert vision is not None

    assert FAMILIES[family].layout.frame_tokens(vision) == 4 * (2 * 4 + 1) + 4
