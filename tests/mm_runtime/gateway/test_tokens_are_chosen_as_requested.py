"""Scores of tokens, and answers to one question: client, gateway, tritonserver, the trained model.

`tests/openai` has each parameter, one by one.
"""

import math
from collections.abc import Awaitable, Callable

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion

from support.real_gateway import RealGateway
from support.tiny_llava import samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SAMPLE = samples()[0]
HOT = {"temperature": 2.0, "top_p": 1.0, "seed": 1399}
Chat = Callable[..., Awaitable[ChatCompletion]]


@pytest.fixture
def chat(real: RealGateway, real_client: AsyncOpenAI) -> Chat:
    async def answer(**parameters: object) -> ChatCompletion:
        return await real_client.chat.completions.create(
            model=real.model,
            messages=SAMPLE.messages,
            **{"temperature": 0, "max_tokens": 12, **parameters},
        )

    return answer


def _text(answer: ChatCompletion) -> str:
    return answer.choices[0].message.content or ""


@pytest.mark.parametrize("rule", [{"top_k": 0}, {"top_k": -1}, {"min_p": 0}], ids=str)
async def test_rules_that_are_off(chat: Chat, rule: dict[str, float]) -> None:
    assert _text(await chat(**HOT)) == _text(await chat(**HOT, extra_body=rule))


async def test_log_probabilities(chat: Chat) -> None:
    """Each token with its own, and of greedy answers it is the first of the likeliest."""
    answer = await chat(logprobs=True, top_logprobs=3)
    assert answer.choices[0].logprobs is not None
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    assert "".join(one.token for one in content).strip() == _text(answer).strip()
    for one in content:
        assert bytes(one.bytes) == one.token.encode()
        assert len(one.top_logprobs) == 3
        assert (one.token, one.logprob) == (one.top_logprobs[0].token, one.top_logprobs[0].logprob)
        assert sum(math.exp(other.logprob) for other in one.top_logprobs) <= 1.001
        values = [other.logprob for other in one.top_logprobs]
        assert sorted(values, reverse=True) == values
    alone = await chat(logprobs=True)
    assert [one.top_logprobs for one in alone.choices[0].logprobs.content] == [[]] * len(content)
    assert [one.logprob for one in content] == pytest.approx(
        [one.logprob for one in alone.choices[0].logprobs.content]
    )


async def test_log_probabilities_of_a_stream(chat: Chat) -> None:
    """The same ones, with the text of their tokens; those of a stop string are cut off with it."""
    plain = await chat(logprobs=True, top_logprobs=2)
    chunks = [chunk async for chunk in await chat(logprobs=True, top_logprobs=2, stream=True)]
    streamed = [
        one
        for chunk in chunks
        for one in (chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else ())
    ]
    assert [one.token for one in streamed] == [
        one.token for one in plain.choices[0].logprobs.content
    ]
    last = _text(plain).split()[-1]
    cut = await chat(logprobs=True, stop=[f" {last}"])
    said = "".join(one.token for one in cut.choices[0].logprobs.content)
    assert (said.strip(), last in said) == (_text(cut).strip(), False)


async def test_answers_of_one_request_share_the_places(chat: Chat) -> None:
    """More answers than the model has slots wait for each other; all of them come."""
    answer = await chat(**HOT, n=8, max_tokens=3)
    assert len(answer.choices) == 8
