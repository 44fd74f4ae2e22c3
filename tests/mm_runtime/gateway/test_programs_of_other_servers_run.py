"""Programs that were written for DashInfer-VLM's and vLLM's servers run: the real path."""

import httpx
import pytest
from openai import AsyncOpenAI

from support.images import data_url
from support.real_gateway import RealGateway
from support.tiny_llava import Sample, samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SAMPLE = samples()[0]


def _messages(sample: Sample = SAMPLE) -> dict[str, object]:
    url = data_url(sample.image.read_bytes())
    image = {"type": "image_url", "image_url": {"url": url}}
    return {"role": "user", "content": [{"type": "text", "text": sample.question}, image]}


async def test_every_chunk_has_content(real: RealGateway, real_client: AsyncOpenAI) -> None:
    """DashInfer-VLM's guide adds up `delta.content` without a look at what it is."""
    response = await real_client.chat.completions.create(
        model=real.model,
        messages=[_messages()],
        stream=True,
        max_completion_tokens=64,
        temperature=0,
    )
    full = ""
    async for chunk in response:
        full += chunk.choices[0].delta.content
    assert full.strip() == SAMPLE.answer


async def test_every_chunk_says_the_usage_so_far(
    real: RealGateway, real_client: AsyncOpenAI
) -> None:
    """The option `continuous_usage_stats`: prompt tokens at once, then tokens as they come."""
    response = await real_client.chat.completions.create(
        model=real.model,
        messages=[_messages()],
        stream=True,
        temperature=0,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
    )
    chunks = [chunk async for chunk in response]
    counts = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage]
    assert len(chunks) == len(counts)
    assert (sorted(counts), counts[0]) == (counts, 0)
    assert {chunks[-1].usage.prompt_tokens} == {chunk.usage.prompt_tokens for chunk in chunks}
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == chunks[-2].usage.completion_tokens


async def test_conversations_of_agents_are_read(
    real: RealGateway, real_client: AsyncOpenAI
) -> None:
    """Developers, tools, an assistant that said nothing, no tools to choose from."""
    answer = await real_client.chat.completions.create(
        model=real.model,
        messages=[
            {"role": "developer", "content": "Answer in short."},
            {"role": "user", "content": "What ?"},
            {"role": "assistant", "content": None},
            {"role": "tool", "tool_call_id": "call_1", "content": "a red square"},
            {"role": "user", "content": "What color is it?"},
        ],
        tools=[],
        tool_choice="none",
        max_completion_tokens=4,
        temperature=0,
    )
    without = await real_client.chat.completions.create(
        model=real.model,
        messages=[{"role": "user", "content": "What color is it?"}],
        max_completion_tokens=4,
        temperature=0,
    )
    assert answer.usage.prompt_tokens > without.usage.prompt_tokens + 3


async def test_a_slash_at_the_end_is_no_redirect(
    real: RealGateway, real_http: httpx.AsyncClient
) -> None:
    """A redirect would lose the body in some clients."""
    body = {"model": real.model, "messages": [_messages()], "temperature": 0}
    answer = await real_http.post("/v1/chat/completions/", json=body, follow_redirects=False)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"].strip() == SAMPLE.answer
