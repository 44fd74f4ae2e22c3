"""A bare question gets the checkpoint's wrapper; placeholders and images agree in number."""

import base64
from pathlib import Path

import numpy as np
import pytest

from mm_api.families import FAMILIES
from mm_api.families.llava import PROMPT, WRAPPER
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.media import MediaLimits, image_from_url, images_from_pixels
from mm_runtime.serving.prompts.questions import Question, TextQuestions
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.writers import PromptWriter, place_features
from support.cases import cases
from support.tiny_llava import CHECKPOINT, IMAGES


@cases(
    "text images expected",
    {
        "one image": ("What is it?", 1, "USER: <image>\nWhat is it? ASSISTANT:"),
        "two images": ("Which?", 2, "USER: <image>\n<image>\nWhich? ASSISTANT:"),
        "text only": ("Hello!", 0, "USER: Hello! ASSISTANT:"),
        "full prompt with a placeholder": ("<image> this?", 1, "<image> this?"),
        "full prompt": ("<s>USER: Hi ASSISTANT:", 0, "<s>USER: Hi ASSISTANT:"),
    },
)
def test_checkpoints_template_goes_around_a_bare_question(
    text: str, images: int, expected: str
) -> None:
    assert expected == PromptWriter.from_folder(CHECKPOINT, "<s>", PROMPT).write(text, images)


def test_llavas_wrapper_without_a_template() -> None:
    writer = PromptWriter(WRAPPER, None, PROMPT)
    assert "USER:\n<image>\nWhat? ASSISTANT:" == writer.write("What?", 1)  # noqa: SIM300


ENDED = {
    name: prompt
    for name, family in FAMILIES.items()
    if (prompt := family.prompt) is not None and prompt.wrapper.endswith("\n")
}


@pytest.mark.parametrize("name", ENDED)
def test_a_wrapper_keeps_its_last_newline(name: str, tmp_path: Path) -> None:
    """A checkpoint without chat template: what opens the answer is a line of its own."""
    prompt = PromptWriter.from_folder(tmp_path, None, ENDED[name]).write("What?", 0)

    after_the_text = ENDED[name].wrapper.rpartition("%}")[2]
    assert prompt.endswith("What?" + after_the_text)


@cases(
    "text images message",
    {
        "too few images": ("<image> and <image>", 1, "2 <image> .* 1 image"),
        "too many images": ("<image>", 3, "1 <image> .* 3 image"),
        "full prompt without place": ("<s>Hello", 1, "0 <image> .* 1 image"),
    },
)
def test_disagreement_names_both_numbers(text: str, images: int, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        PromptWriter.from_folder(CHECKPOINT, "<s>", PROMPT).write(text, images)


def test_each_image_gets_its_own_rows() -> None:
    placed = place_features([1, 4, 7, 4], feature_id=4, rows=(3, 2), vocabulary_size=50)
    assert placed == [1, 50, 51, 52, 7, 53, 54]


def test_the_decoder_begins_as_requested() -> None:
    questions = TextQuestions(TextCodec(CHECKPOINT), (2, 9), 3)
    ids, word = questions.codec.encode_prompt("a"), questions.codec.encode_word("red")
    assert questions.write("a", None, (), video=False) == Question(ids, [2, 9])
    assert questions.write("a", "red", (), video=False) == Question(ids, [2, 9, *word])
    with pytest.raises(RequestError, match="has 4 ids, at most 3 are allowed"):
        questions.write("a", "red square", (), video=False)


LIMITS = MediaLimits(max_bytes=100_000, max_pixels=250_000)
PNG = (IMAGES / "red-square.png").read_bytes()


def _url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


@cases(
    "url message",
    {
        "not fetched": ("https://example.com/x.png", "not a URL of an image"),
        "file": ("file:///etc/passwd", "not a URL of an image"),
        "not base64": ("data:image/png;base64,@@@@", "not valid base64"),
        "truncated base64": ("data:image/png;base64,abcde", "not valid base64"),
        "not marked as base64": ("data:image/png,abc", "not marked as base64"),
        "no comma": ("data:image/png;base64", "no comma"),
        "empty": (_url(b""), "empty \\(0 bytes\\)"),
        "no image": (_url(b"GIF89a nonsense"), "not an image"),
        "truncated": (_url(PNG[: len(PNG) // 2]), "damaged or truncated"),
        "too many bytes": (_url(b"x" * 200_000), "more than the limit of 100000"),
    },
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        image_from_url(url, LIMITS)


@cases(
    "shape message",
    {
        "no image dimension": ((1, 10, 10, 3), "expected raw RGB as"),
        "four channels": ((1, 1, 4, 10, 10), "expected raw RGB as"),
        "batch of two": ((2, 1, 10, 10, 3), "expected raw RGB as"),
        "no rows": ((1, 1, 0, 10, 3), "the image is empty"),
        "too many pixels": ((1, 1, 1000, 1000, 3), "1000 x 1000 pixels"),
    },
)
def test_bad_raw_pixels(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        images_from_pixels(np.zeros(shape, dtype=np.uint8), LIMITS)
