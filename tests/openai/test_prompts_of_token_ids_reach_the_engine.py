"""A prompt of token ids reaches the engine as it is, or is refused by name.

A token of this tokenizer is a byte. Ids differ from a text by the begin token, which only a text
gets, and by parts of characters, which no text has.
"""

from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from support import calling_llava
from support.cases import cases

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

TEXT = "Will it rain?"
IDS = [calling_llava.BEGIN, *TEXT.encode()]
OTHER = [calling_llava.BEGIN, *b"no"]
GIVEN: dict[str, Any] = {"model": "tiny", "max_tokens": 6, "temperature": 0}


def test_ids_of_a_text_are_answered_as_the_text(client: OpenAI) -> None:
    of_text = client.completions.create(**GIVEN, prompt=TEXT)
    of_ids = client.completions.create(**GIVEN, prompt=IDS)
    assert of_ids.choices[0].text == of_text.choices[0].text
    assert of_ids.usage == of_text.usage


def test_no_token_is_added(client: OpenAI) -> None:
    """Without the begin token they are another prompt, and so is a part of a character."""
    bare = client.completions.create(**GIVEN, prompt=IDS[1:], logprobs=0)
    begun = client.completions.create(**GIVEN, prompt=IDS, logprobs=0)
    assert bare.usage is not None
    assert bare.usage.prompt_tokens == len(TEXT)
    assert bare.choices[0].logprobs is not None
    assert begun.choices[0].logprobs is not None
    assert bare.choices[0].logprobs.token_logprobs != begun.choices[0].logprobs.token_logprobs
    byte = client.completions.create(**GIVEN, prompt=[0xE9], echo=True)
    assert byte.usage is not None
    assert byte.usage.prompt_tokens == 1  # no text has this token alone
    assert byte.choices[0].text.startswith("\N{REPLACEMENT CHARACTER}")


def test_several(client: OpenAI) -> None:
    """A list of lists: an answer to each, with what texts have besides."""
    alone = [client.completions.create(**GIVEN, prompt=one) for one in (IDS, OTHER)]
    texts = [one.choices[0].text for one in alone]
    assert texts[0] != texts[1]
    together = client.completions.create(**GIVEN, prompt=[IDS, OTHER], n=2, logprobs=1)
    assert [one.text for one in together.choices] == [text for text in texts for _ in range(2)]
    assert together.usage is not None
    assert together.usage.prompt_tokens == len(IDS) + len(OTHER)
    for choice in together.choices:
        assert choice.logprobs is not None
        assert "".join(choice.logprobs.tokens or ()) == choice.text


def test_echo_is_their_text(client: OpenAI) -> None:
    """Special tokens among it, in one piece and as a stream."""
    plain = client.completions.create(**GIVEN, prompt=[OTHER, IDS], echo=True)
    assert plain.choices[1].text.startswith(f"<s>{TEXT}")
    streamed = {0: "", 1: ""}
    for chunk in client.completions.create(**GIVEN, prompt=[OTHER, IDS], echo=True, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert [*streamed.values()] == [one.text for one in plain.choices]


@cases(
    "prompt param says",
    {
        "past-the-vocabulary": ([calling_llava.SIZE], "prompt", "0 to 260"),
        "below-0": ([1, -1], "prompt[1]", "greater than or equal to 0"),
        "no-int32": ([2**31], "prompt[0]", "less than or equal to"),
        "image": ([1, calling_llava.IMAGE], "prompt", "stands for an image"),
        "second-image": ([[1], [calling_llava.IMAGE]], "prompt[1]", "place 0"),
        "empty": ([[1], []], "prompt[1]", "at least 1 item"),
        "only-empty": ([[]], "prompt[0]", "at least 1 item"),
        "text-among-ids": ([1, "a"], "prompt[1]", "valid integer"),
        "number-as-text": ([1, "2"], "prompt[1]", "valid integer"),
        "booleans": ([True, False], "prompt[0]", "valid integer"),
        "no-integer": ([1.0], "prompt[0]", "valid"),
        "id-among-texts": (["a", 1], "prompt[1]", "valid string"),
        "id-among-lists": ([[1], 1], "prompt[1]", "valid array"),
        "text-among-lists": ([[1], "a"], "prompt[1]", "valid array"),
        "too-deep": ([[[1]]], "prompt[0][0]", "valid integer"),
        "too-long": ([1] * 1537, "prompt", "1536"),
        "too-many": ([1] * 20_000, None, "16384 elements"),
        "too-many-prompts": ([[1]] * 17, "prompt", "at most 16 answers"),
    },
)
def test_refusals(client: OpenAI, prompt: Any, param: str | None, says: str) -> None:
    """Before anything is sent to the engine, by the place that is wrong."""
    with pytest.raises(BadRequestError) as refusal:
        client.completions.create(**GIVEN, prompt=prompt)
    assert (refusal.value.param, refusal.value.type) == (param, "invalid_request_error")
    assert says in refusal.value.message
