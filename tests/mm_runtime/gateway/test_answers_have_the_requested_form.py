"""Choices and patterns through the real path, whose model has no words with quotes or braces."""

import pytest
from openai import AsyncOpenAI, BadRequestError

from support.cases import cases
from support.real_gateway import RealGateway
from support.tiny_llava import samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SAMPLE = samples()[0]


def _body(real: RealGateway, **extra: object) -> dict[str, object]:
    return {
        "model": real.model,
        "messages": SAMPLE.messages,
        "max_tokens": 8,
        "temperature": 0,
        "extra_body": extra,
    }


@cases(
    "extra words",
    {
        "no-pattern": ({"structured_outputs": {"regex": "(a"}}, "parse error: unclosed group"),
        "least": ({"structured_outputs": {"regex": "a"}, "min_tokens": 2}, "cannot be held"),
        "no-structure": ({"structured_outputs": {}}, "expected one of `json`"),
        "no-json": ({"structured_outputs": {"json": "{"}}, "a text of one"),
        "deep-schema": (
            {"structured_outputs": {"json": '{"not":' * 400 + "{}" + "}" * 400}},
            "a text of one",
        ),
        "no-structured": ({"structured_outputs": {"regex": "(a"}}, "guided_decoding_guide"),
        "too-long": ({"structured_outputs": {"regex": "a" * 5000}}, "at most 4096"),
        "nothing": ({"structured_outputs": {"choice": []}}, "at least 1 item"),
        "no-schema": (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "shape"}},
                }
            },
            "guided_decoding_guide",
        ),
        "large-schema": (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"title": "x" * 70_000}},
                }
            },
            "at most 65536",
        ),
    },
)
async def test_refusals(
    real: RealGateway, real_client: AsyncOpenAI, extra: dict[str, object], words: str
) -> None:
    """The reason is in the message, and the next request is answered."""
    with pytest.raises(BadRequestError, match=words):
        await real_client.chat.completions.create(**_body(real, **extra))
    again = await real_client.chat.completions.create(**_body(real))
    assert again.choices[0].message.content.strip() == SAMPLE.answer


@pytest.mark.parametrize("temperature", [0, 1.5], ids=["greedy", "sampled"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_words_that_the_model_lacks(
    real: RealGateway, real_client: AsyncOpenAI, *, stream: bool, temperature: float
) -> None:
    """No token begins an object: the request fails with a reason, and alone."""
    body = _body(real, response_format={"type": "json_object"})
    body |= {"stream": stream, "temperature": temperature}
    with pytest.raises(BadRequestError, match=r"no token of .* may come after the 0"):
        await real_client.chat.completions.create(**body)
    again = await real_client.chat.completions.create(**_body(real))
    assert again.choices[0].message.content.strip() == SAMPLE.answer
