"""The official client gets what it gets from OpenAI, plain and streaming."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, BadRequestError

from support.gateways import FEATURES, MODEL, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

QUESTION = {"type": "text", "text": "what is it ?"}


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def client(tmp_path: Path, engine: ScriptedEngine) -> AsyncIterator[AsyncOpenAI]:
    async with (
        serve(toy_gateway(tmp_path, engine)) as running,
        AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=60
        ) as client,
    ):
        yield client


def _image() -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}


def _user(*parts: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": list(parts)}]


async def test_a_plain_answer_is_one_completion(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=_user(QUESTION, _image()))
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("a red square", "stop")
    assert answer.usage is not None
    # <s> USER: what is it ?<image> ASSISTANT: with the image as its features
    words = 8
    assert (words - 1 + FEATURES, 3) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert answer.usage.total_tokens == words - 1 + FEATURES + 3


async def test_a_stream_has_role_deltas_and_reason_in_order(client: AsyncOpenAI) -> None:
    """The first chunk names the role, the last one the reason; deltas join to the answer."""
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(
            model=MODEL, messages=_user(QUESTION), stream=True
        )
    ]
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "a red square"
    assert [c.choices[0].finish_reason for c in chunks] == [None, None, None, None, "stop"]
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_stop_string_is_cut_and_ends_the_generation(
    client: AsyncOpenAI, engine: ScriptedEngine
) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=_user(QUESTION), stop=["red"]
    )
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("a ", "stop")
    assert engine.cancelled == 1


async def test_images_reach_the_engine_in_their_places(
    client: AsyncOpenAI, engine: ScriptedEngine
) -> None:
    """Each image part is one placeholder in the prompt and one square of pixels."""
    await client.chat.completions.create(model=MODEL, messages=_user(_image(), QUESTION, _image()))
    request = engine.requests[0]
    assert request.prompt == "USER: <image>what is it ?<image>\nASSISTANT:"
    assert [image.shape for image in request.images] == [(56, 56, 3)] * 2


async def test_a_cache_salt_reaches_the_engine(client: AsyncOpenAI, engine: ScriptedEngine) -> None:
    """VLLM's name for it; without one nothing is sent, and an empty one is refused."""
    for salt in ({"cache_salt": "ann"}, {}):
        await client.chat.completions.create(
            model=MODEL, messages=_user(QUESTION, _image()), extra_body=salt
        )
    assert [one.cache_salt for one in engine.requests] == ["ann", ""]
    with pytest.raises(BadRequestError, match="cache_salt"):
        await client.chat.completions.create(
            model=MODEL, messages=_user(QUESTION), extra_body={"cache_salt": ""}
        )


async def test_a_question_without_image_is_text(
    client: AsyncOpenAI, engine: ScriptedEngine
) -> None:
    """Plain text content works; the prompt begins with the begin token, so it is taken as it is."""
    await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hello"}]
    )
    request = engine.requests[0]
    assert request.prompt == "<s>USER: hello\nASSISTANT:"
    assert request.images == ()


async def test_sampling_is_what_the_client_requested(
    client: AsyncOpenAI, engine: ScriptedEngine
) -> None:
    await client.chat.completions.create(
        model=MODEL,
        messages=_user(QUESTION),
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=-0.2,
        seed=-1,
    )
    sampling = engine.requests[0].sampling
    assert (
        sampling.temperature,
        sampling.top_p,
        sampling.presence_penalty,
        sampling.frequency_penalty,
    ) == (0.5, 0.9, 0.1, -0.2)
    assert sampling.seed == 2**64 - 1


async def test_without_a_seed_every_request_gets_its_own(
    client: AsyncOpenAI, engine: ScriptedEngine
) -> None:
    for _ in range(2):
        await client.chat.completions.create(model=MODEL, messages=_user(QUESTION))
    assert len({request.sampling.seed for request in engine.requests}) == 2
