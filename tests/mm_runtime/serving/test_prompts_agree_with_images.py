"""A bare question gets the checkpoint's wrapper; placeholders and images agree in number."""

from pathlib import Path

import pytest

from mm_api.families import FAMILIES
from mm_api.families.llava import PROMPT, WRAPPER
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.writers import PromptWriter, place_features
from support.cases import cases
from support.tiny_llava import CHECKPOINT


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
    """Only text without placeholder and begin token is wrapped."""
    assert expected == PromptWriter.from_folder(CHECKPOINT, "<s>", PROMPT).write(text, images)


def test_llavas_wrapper_without_a_template() -> None:
    """A checkpoint without chat template gets upstream's prompt."""
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
    """The client learns how many placeholders and how many images it sent."""
    with pytest.raises(RequestError, match=message):
        PromptWriter.from_folder(CHECKPOINT, "<s>", PROMPT).write(text, images)


def test_template_cannot_reach_out_of_its_sandbox() -> None:
    """A checkpoint's template is data from outside: it runs no code."""
    writer = PromptWriter("{{ ''.__class__.__mro__ }}", None, PROMPT)
    with pytest.raises(RequestError, match="is unsafe"):
        writer.write("x", 0)


def test_each_image_gets_its_own_rows() -> None:
    """Row numbers continue from image to image; text ids stay as they are."""
    placed = place_features([1, 4, 7, 4], feature_ids={4}, rows=(3, 2), vocabulary_size=50)
    assert placed == [1, 50, 51, 52, 7, 53, 54]
