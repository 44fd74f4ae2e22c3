"""Ids of tokens are a prompt as they are, unless the model cannot read them as text."""

import pytest

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.ids import check_prompt
from mm_runtime.serving.prompts.questions import Question, TextQuestions
from mm_runtime.serving.prompts.tokens import TextCodec
from support.cases import cases
from support.tiny_llava import CHECKPOINT


def test_an_encoder_reads_them() -> None:
    """The decoder begins as behind a text; ids of a text are the text."""
    questions = TextQuestions(TextCodec(CHECKPOINT), (2, 9), 3)
    assert questions.of_ids([5, 7, 7], None) == Question([5, 7, 7], [2, 9])
    word = questions.codec.encode_word("red")
    assert questions.of_ids([5], "red") == Question([5], [2, 9, *word])
    written = questions.write("red square", None, (), video=False)
    assert questions.of_ids(questions.codec.encode_prompt("red square"), None) == written
    assert not questions.media_ids
    with pytest.raises(RequestError, match="has 4 ids, at most 3 are allowed"):
        questions.of_ids([5], "red square")


@cases(
    "ids says",
    {
        "none": ([], "at least one"),
        "past-the-vocabulary": ([0, 9, 10], "token 10 at place 2 .* 0 to 9"),
        "below-0": ([-1], "token -1 at place 0"),
        "media": ([1, 3], "token 3 at place 1 stands for an image"),
    },
)
def test_what_is_no_text(ids: list[int], says: str) -> None:
    check_prompt([0, 9], {3}, 10)
    with pytest.raises(RequestError, match=says):
        check_prompt(ids, {3}, 10)
