"""`kvCache.reuse` through gateway and Triton: turns of a chat find what earlier ones left."""

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from mm_api.documents.serving_plan import ServingPlan
from support.eventually import eventually_async
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import IMAGES, BuiltEngine

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(600)]

BLOCK = 16
REUSE_BYTES = 64 << 20


@pytest.fixture(scope="module")
def pair(
    tiny_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealGateway]:
    folder = tmp_path_factory.mktemp("reuse")
    plan = ServingPlan.from_json(tiny_engine.serving.read_bytes())
    path = folder / "plan.json"
    path.write_text(plan.model_copy(update={"reuse_bytes": REUSE_BYTES}).to_json())
    with run_pair(replace(tiny_engine, serving=path), folder) as running:
        yield running


@pytest.fixture
async def client(pair: RealGateway) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60
    ) as connected:
        yield connected


def messages(name: str, *more: tuple[str, str]) -> list[Any]:
    content = base64.b64encode((IMAGES / name).read_bytes()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{content}"}}
    first = {"role": "user", "content": [image, {"type": "text", "text": "What is in the image?"}]}
    return [first, *({"role": role, "content": text} for role, text in more)]


def messages_of(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


async def test_the_second_turn_finds_the_first(client: AsyncOpenAI, pair: RealGateway) -> None:
    """The usage says how much; the metrics count it; another salt finds nothing."""

    async def answer(given: list[Any], **more: Any) -> tuple[str, int]:
        got = await client.chat.completions.create(
            model=pair.model, messages=given, temperature=0, max_tokens=16, **more
        )
        assert got.usage is not None
        assert got.usage.prompt_tokens_details is not None
        cached = got.usage.prompt_tokens_details.cached_tokens
        assert cached is not None
        return got.choices[0].message.content or "", cached

    chat = messages("red-square.png")
    said, none = await answer(chat)
    assert (said, none) == ("a red square", 0)
    again = await answer(chat)
    assert again[0] == said
    assert again[1] >= BLOCK
    longer = await answer([*chat, {"role": "assistant", "content": said}, *messages_of("and now?")])
    assert longer[1] >= again[1]
    salted = {"extra_body": {"cache_salt": "ann"}}
    assert [(await answer(chat, **salted))[1] for _ in range(2)] == [0, again[1]]
    other = messages("big-green-triangle.png")
    assert await answer(other) == ("a green triangle", 0)

    async def counted() -> bool:
        page = pair.triton_metrics()
        found = {
            (one.name, one.labels.get("result")): one.value
            for family in text_string_to_metric_families(page)
            for one in family.samples
        }
        reused = found.get(("mm_kv_reuse_tokens_total", "reused"), 0.0)
        kept = found.get(("mm_kv_reuse_bytes", None), 0.0)
        return reused >= 2 * again[1] and 0 < kept <= REUSE_BYTES

    await eventually_async(counted)


async def test_a_stream_says_it_with_its_usage(client: AsyncOpenAI, pair: RealGateway) -> None:
    """In the last chunk, as OpenAI's; with log probabilities too."""
    for scored in (False, True):
        stream = await client.chat.completions.create(
            model=pair.model,
            messages=messages("orange-cross.png"),  # no other test's
            max_tokens=8,
            stream=True,
            logprobs=scored,
            stream_options={"include_usage": True},
        )
        usages = [chunk.usage async for chunk in stream if chunk.usage is not None]
        assert usages[-1].prompt_tokens_details is not None
        assert usages[-1].prompt_tokens_details.cached_tokens is not None
