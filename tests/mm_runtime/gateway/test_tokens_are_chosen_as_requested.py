"""Parameters that choose tokens do so: client, gateway, tritonserver and the trained model."""

import math
from collections.abc import Awaitable, Callable

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.chat import ChatCompletion

from mm_runtime.serving.prompts.tokens import TextCodec
from support.cases import cases
from support.images import data_url
from support.real_gateway import RealGateway
from support.tiny_llava import CHECKPOINT, samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SAMPLE = samples()[0]
HOT = {"temperature": 2.0, "top_p": 1.0, "seed": 1399}
"""Without further rules this answer is another one than the likeliest: `test_hot` says so."""

Chat = Callable[..., Awaitable[ChatCompletion]]


@pytest.fixture
def codec() -> TextCodec:
    """The model's tokenizer."""
    return TextCodec(CHECKPOINT)


@pytest.fixture
def chat(real: RealGateway, real_client: AsyncOpenAI) -> Chat:
    """Send a question about an image, greedy unless said otherwise."""
    image = {"type": "image_url", "image_url": {"url": data_url(SAMPLE.image.read_bytes())}}
    parts = [{"type": "text", "text": SAMPLE.question}, image]
    messages = [{"role": "user", "content": parts}]
    ours = {"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"}
    ours |= {"skip_special_tokens"}

    async def answer(**parameters: object) -> ChatCompletion:
        extra = {name: value for name, value in parameters.items() if name in ours}
        plain = {name: value for name, value in parameters.items() if name not in ours}
        return await real_client.chat.completions.create(
            model=real.model,
            messages=messages,
            extra_body=extra,
            **{"temperature": 0, "max_tokens": 12, **plain},
        )

    return answer


def _text(answer: ChatCompletion) -> str:
    return answer.choices[0].message.content or ""


async def test_hot(chat: Chat) -> None:
    """What the other tests begin with: at this temperature the answer is another one."""
    assert _text(await chat()).strip() == SAMPLE.answer
    assert _text(await chat(**HOT)).strip() != SAMPLE.answer


@cases("rule", {"top_k": {"top_k": 1}, "min_p": {"min_p": 1.0}, "top_p": {"top_p": 0.001}})
async def test_only_the_likeliest_token_is_left(chat: Chat, rule: dict[str, float]) -> None:
    """However hot, there is nothing else to draw from."""
    assert _text(await chat(**{**HOT, **rule})).strip() == SAMPLE.answer


@pytest.mark.parametrize("rule", [{"top_k": 0}, {"top_k": -1}, {"min_p": 0}], ids=str)
async def test_rules_that_are_off(chat: Chat, rule: dict[str, float]) -> None:
    """They change nothing."""
    assert _text(await chat(**HOT)) == _text(await chat(**HOT, **rule))


async def test_answers_end_later(chat: Chat, codec: TextCodec) -> None:
    """`min_tokens` and `ignore_eos` keep an answer from its end; the second one shows the token."""
    short = await chat()
    length = short.usage.completion_tokens
    assert length + 3 < 12
    least = await chat(min_tokens=length + 3)
    assert least.usage.completion_tokens >= length + 3
    endless = await chat(ignore_eos=True)
    assert (endless.choices[0].finish_reason, endless.usage.completion_tokens) == ("length", 12)
    end = codec.decode_all([codec.end_id])
    assert end not in _text(endless)
    assert end in _text(await chat(ignore_eos=True, skip_special_tokens=False))


async def test_stop_tokens(chat: Chat, codec: TextCodec) -> None:
    """An answer ends before a token that stops it."""
    *before, last = _text(await chat()).split()
    stopped = await chat(stop_token_ids=codec.encode_word(last))
    assert _text(stopped).split() == before
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.usage.completion_tokens == len(before)


async def test_bias(chat: Chat, codec: TextCodec) -> None:
    """A token is kept out, or said again and again."""
    first = _text(await chat()).split()[0]
    (token,) = codec.encode_word(first)
    assert first not in _text(await chat(logit_bias={str(token): -100})).split()
    only = await chat(logit_bias={str(token): 100}, max_tokens=4)
    assert _text(only).split() == [first] * 4


async def test_repetition(chat: Chat) -> None:
    """With a strong penalty fewer tokens come twice."""
    plain = _text(await chat(ignore_eos=True, logit_bias={"0": -100})).split()
    once = _text(await chat(ignore_eos=True, logit_bias={"0": -100}, repetition_penalty=50)).split()
    assert len(set(once)) / len(once) > len(set(plain)) / len(plain)


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


async def test_several_answers(chat: Chat) -> None:
    """Each with its own seed; the prompt counts once, and every token of every answer."""
    answer = await chat(**HOT, n=3, logprobs=True)
    one = await chat(**HOT)
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert texts[0] == _text(one)
    assert len(set(texts)) > 1
    counted = sum(len(choice.logprobs.content) for choice in answer.choices)
    assert (one.usage.prompt_tokens, counted) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )


async def test_several_answers_of_a_stream(chat: Chat) -> None:
    """Chunks carry the number of their answer; each answer is that of the plain request."""
    plain = await chat(**HOT, n=3)
    chunks = [
        chunk
        async for chunk in await chat(
            **HOT, n=3, stream=True, stream_options={"include_usage": True}
        )
    ]
    texts, reasons = {}, {}
    for chunk in chunks[:-1]:
        (choice,) = chunk.choices
        texts[choice.index] = texts.get(choice.index, "") + choice.delta.content
        if choice.finish_reason:
            reasons[choice.index] = choice.finish_reason
    assert texts == {choice.index: choice.message.content for choice in plain.choices}
    assert reasons == {choice.index: choice.finish_reason for choice in plain.choices}
    assert (chunks[-1].choices, chunks[-1].usage) == ([], plain.usage)


async def test_answers_of_one_request_share_the_places(chat: Chat) -> None:
    """More answers than the model has slots wait for each other; all of them come."""
    answer = await chat(**HOT, n=8, max_tokens=3)
    assert len(answer.choices) == 8


async def test_only_chats_of_this_model(chat: Chat) -> None:
    """A token that the model does not have is named, and the next request is answered."""
    with pytest.raises(BadRequestError, match="none of the model's") as refusal:
        await chat(logit_bias={"1000000": 1})
    assert refusal.value.param == "logit_bias"
    assert _text(await chat()).strip() == SAMPLE.answer
