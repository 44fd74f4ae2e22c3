"""Prompts of token ids have a text, or are refused by the part of the request that holds them."""

import pytest

from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.prompts.token_prompts import TokenPrompts
from mm_runtime.serving.prompts.tokens import TextCodec
from support.cases import cases
from support.tiny_llava import CHECKPOINT

CODEC = TextCodec(CHECKPOINT)
MEDIA = CODEC.encode_word("square")[-1]
IDS = CODEC.encode_prompt("what color is it ?")


def prompts(*, reads_text: bool = False) -> TokenPrompts:
    return TokenPrompts(CODEC, frozenset({MEDIA}), CODEC.size, reads_text=reads_text)


def test_ids_have_a_text() -> None:
    assert prompts().text_of(IDS, "prompt") == CODEC.decode_all(IDS)


@cases(
    "ids reads_text says",
    {
        "past-the-vocabulary": ([CODEC.size], False, "none of the model's"),
        "media": ([MEDIA], False, "stands for an image"),
        "own-processor": (IDS, True, "must be a text"),
    },
)
def test_refusals(ids: list[int], says: str, *, reads_text: bool) -> None:
    with pytest.raises(InvalidRequestError, match=rf"^`prompt\[1\]`.*{says}") as refusal:
        prompts(reads_text=reads_text).text_of(ids, "prompt[1]")
    assert refusal.value.param == "prompt[1]"
