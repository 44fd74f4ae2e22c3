"""Preprocessing without transformers gives what transformers' processor gives."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import (
    CLIPImageProcessorPil,
    Idefics3ImageProcessorPil,
    ProcessorMixin,
    SmolVLMImageProcessorPil,
)
from transformers.models.gemma3.processing_gemma3 import Gemma3Processor
from transformers.models.idefics3.processing_idefics3 import Idefics3Processor
from transformers.models.pixtral import image_processing_pil_pixtral as with_pillow

from mm_api.families import FAMILIES
from mm_api.families.idefics3 import MARKS
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.lines import LineProcessor
from mm_runtime.serving.preprocess.processors.numbered import NumberedProcessor
from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from support.cases import cases
from support.families.expected import noise_image
from support.tiny_llava import CHECKPOINT


def _image(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


@cases(
    "width height",
    {
        "exact": (56, 56),
        "larger square": (224, 224),
        "landscape": (640, 427),
        "portrait": (333, 1000),
        "smaller": (20, 31),
        "one column too many": (57, 56),
        "one column": (1, 90),
    },
)
def test_equal_to_transformers(width: int, height: int) -> None:
    """Resize, crop and normalisation agree to float rounding on awkward sizes."""
    image = _image(width, height)
    reference = CLIPImageProcessorPil.from_pretrained(CHECKPOINT)
    expected = np.asarray(reference(image)["pixel_values"])
    actual = ImagePreprocessor.from_folder(CHECKPOINT)([image])
    np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_transparent_images_become_rgb() -> None:
    """An image with an alpha channel or a palette is converted first."""
    preprocess = ImagePreprocessor.from_folder(CHECKPOINT)
    grey = Image.new("L", (60, 60), 128)
    assert preprocess([grey, grey.convert("RGBA")]).shape == (2, 3, 56, 56)


def test_processor_config_alone_is_enough(tmp_path: object) -> None:
    """Newer checkpoints keep the image part inside processor_config.json."""
    from pathlib import Path  # noqa: PLC0415

    folder = Path(str(tmp_path))
    name = "processor_config.json"
    (folder / name).write_text((CHECKPOINT / name).read_text())
    expected = ImagePreprocessor.from_folder(CHECKPOINT)
    assert expected == ImagePreprocessor.from_folder(folder)


PATCH, MERGE, LONGEST = 14, 2, 1540

PROCESSOR = LineProcessor(
    resample=Image.Resampling.BICUBIC,
    patch=PATCH,
    merge=MERGE,
    longest=LONGEST,
    feature="[IMG]",
    line_end="[IMG_BREAK]",
    image_end="[IMG_END]",
)

UPSTREAM = SimpleNamespace(
    patch_size=PATCH,
    spatial_merge_size=MERGE,
    image_token="[IMG]",
    image_break_token="[IMG_BREAK]",
    image_end_token="[IMG_END]",
)
"""What its processor reads of itself."""


def upstreams_processor() -> Any:
    """Return the class, with the module beside it that needs no torchvision."""
    name = "transformers.models.pixtral.image_processing_pixtral"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, with_pillow)
        from transformers.models.pixtral.processing_pixtral import (  # noqa: PLC0415 (patched)
            PixtralProcessor,
        )
    return PixtralProcessor


def upstreams_prompt(size: tuple[int, int]) -> str:
    fitted = with_pillow.get_resize_output_image_size(
        SimpleNamespace(shape=(3, *size)),
        size=(LONGEST, LONGEST),
        patch_size=(PATCH * MERGE,) * 2,
        input_data_format="channels_first",
    )
    written = upstreams_processor().replace_image_token(UPSTREAM, {"image_sizes": [fitted]}, 0)
    assert isinstance(written, str)
    return written


@given(size=st.tuples(st.integers(28, 6000), st.integers(28, 6000)))
def test_prompts(size: tuple[int, int]) -> None:
    """A placeholder for each run stands for as many of upstream's as the run has rows."""
    (frame,) = PROCESSOR.frames_of([size])

    lines = frame.text.split("[IMG]")
    spelled = lines[0] + "".join(
        "[IMG]" * run + end for run, end in zip(frame.runs, lines[1:], strict=True)
    )

    assert spelled == upstreams_prompt(size)
    assert sum(frame.runs) == PROCESSOR.rows_of([size])[0]


@given(size=st.tuples(st.integers(28, 400), st.integers(28, 400)))
def test_a_reduced_image_is_reduced_no_further(size: tuple[int, int]) -> None:
    """What the gateway sends becomes the same lines as what it received."""
    height, width = size
    reduced = PROCESSOR.reduced(Image.new("RGB", (width, height)), 1)

    assert PROCESSOR.frames_of([(reduced.height, reduced.width)]) == PROCESSOR.frames_of([size])


def test_a_strip_of_nothing() -> None:
    """A strip whose shorter side would have no pixel is refused; upstream makes no lines of it."""
    with pytest.raises(RequestError, match="nothing is left"):
        PROCESSOR.rows_of([(1, 10_000)])


TILE, NUMBERED_LONGEST, ROWS = 28, 112, 4
SIZES = st.tuples(st.integers(1, 300), st.integers(1, 300)).filter(
    # Upstream fails on strips that have less than a pixel left.
    lambda size: max(size) < NUMBERED_LONGEST * min(size)
)


def ours(*, splits: bool = True) -> NumberedProcessor:
    return NumberedProcessor(
        Image.Resampling.LANCZOS, TILE, NUMBERED_LONGEST, ROWS, splits, "<image>", MARKS
    )


def numbered_upstreams_prompt(rows: int, columns: int) -> str:
    """Return what stands for an image of such a grid."""
    own = SimpleNamespace(
        fake_image_token="<fake_token_around_image>",
        image_token="<image>",
        global_image_tag="<global-img>",
        image_seq_len=ROWS,
    )
    written = Idefics3Processor.replace_image_token(own, {"rows": [[rows]], "cols": [[columns]]}, 0)
    assert isinstance(written, str)
    return written


@pytest.mark.parametrize("kind", [Idefics3ImageProcessorPil, SmolVLMImageProcessorPil])
@pytest.mark.parametrize("splits", [True, False], ids=["split", "view"])
@settings(deadline=None, max_examples=40)
@given(size=SIZES)
def test_numbered_prompts(kind: type, size: tuple[int, int], *, splits: bool) -> None:
    """Whatever its size, an image becomes as many tiles behind the same tokens."""
    image = noise_image(*size, seed=sum(size))
    found = kind(
        size={"longest_edge": NUMBERED_LONGEST},
        max_image_size={"longest_edge": TILE},
        do_image_splitting=splits,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )([[image]], return_row_col_info=True, return_tensors="np")
    processor = ours(splits=splits)

    (frame,) = processor.frames_of([(image.height, image.width)])

    expected = numbered_upstreams_prompt(found["rows"][0][0], found["cols"][0][0])
    assert frame.text.replace("<image>", "<image>" * ROWS) == expected
    tiles = len(found["pixel_values"][0])
    assert processor.rows_of([(image.height, image.width)]) == (sum(frame.runs),) == (ROWS * tiles,)


@settings(deadline=None)
@given(size=SIZES)
def test_reduced_images(size: tuple[int, int]) -> None:
    """What the gateway sends becomes as many tiles as what it received."""
    image = noise_image(*size, seed=sum(size))
    processor = ours()
    reduced = processor.reduced(image, 1)

    assert max(reduced.size) <= max(NUMBERED_LONGEST, *image.size)
    found, expected = (processor.frames_of([(one.height, one.width)]) for one in (reduced, image))
    assert found == expected


def test_gemma3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A placeholder stands for all features; line breaks are part of the frame."""
    monkeypatch.setattr(ProcessorMixin, "__init__", lambda *_, **__: None)
    tokenizer = SimpleNamespace(
        boi_token_id=4,
        boi_token="<start_of_image>",
        image_token="<image_soft_token>",
        eoi_token="<end_of_image>",
    )
    upstream = Gemma3Processor(None, tokenizer, image_seq_length=1)
    style = FAMILIES["gemma3"].prompt
    assert style is not None

    assert style.framed == upstream.replace_image_token({"num_crops": [0]}, 0)
    assert style.placeholder == upstream.image_token
