"""The entire path: official client, gateway, tritonserver, the trained model. Nothing stands in."""

import asyncio
import json
import re

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError
from prometheus_client.parser import text_string_to_metric_families

from support.eventually import eventually_async
from support.real_gateway import RealGateway
from support.tiny_llava import FEATURES_PER_IMAGE, Sample, samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]


def _body(real: RealGateway, **changes: object) -> dict[str, object]:
    return {"model": real.model, "messages": samples()[0].messages, "temperature": 0, **changes}


def _active(real: RealGateway) -> float:
    text = real.triton_metrics()
    found = re.search(r'nv_trt_llm_request_metrics\{request_type="active",.*?\} (\S+)', text)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.id)
async def test_every_image_is_answered_right(
    real: RealGateway, real_client: AsyncOpenAI, sample: Sample
) -> None:
    answer = await real_client.chat.completions.create(
        model=real.model, messages=sample.messages, temperature=0
    )
    assert sample.answer == (answer.choices[0].message.content or "").strip()
    assert answer.choices[0].finish_reason == "stop"


async def test_work_was_measured(real_http: httpx.AsyncClient) -> None:
    """A pod reports what each unit of work takes of it, and something takes time."""
    text = (await real_http.get("/metrics")).text
    pattern = r'^mm_work_seconds\{model="[^"]+",unit="(\w+)"\} (\S+)$'
    found = dict(re.findall(pattern, text, re.MULTILINE))

    assert set(found) == {"request", "image_token", "text_token", "output_token"}
    assert min(map(float, found.values())) >= 0
    assert 0 < sum(map(float, found.values())) < 60


async def test_eight_clients_at_once_get_their_own_answers(
    real: RealGateway, real_client: AsyncOpenAI
) -> None:
    async def query(sample: Sample) -> str | None:
        answer = await real_client.chat.completions.create(
            model=real.model, messages=sample.messages, temperature=0
        )
        return answer.choices[0].message.content

    requested = samples()[:8]
    alone = [await query(sample) for sample in requested]
    together = await asyncio.gather(*map(query, requested))
    assert alone == together


async def test_a_client_that_leaves_frees_the_engine(
    real: RealGateway, real_http: httpx.AsyncClient
) -> None:
    """Ten streams are dropped in the middle: the engine is idle soon, and still answers."""
    body = _body(real, stream=True, max_tokens=64, temperature=2.0)
    for seed in range(10):
        async with real_http.stream(
            "POST", "/v1/chat/completions", content=json.dumps({**body, "seed": seed})
        ) as response:
            async for _ in response.aiter_lines():
                break
    await eventually_async(lambda: _active(real) == 0, pause_seconds=0.1)
    again = await real_http.post("/v1/chat/completions", json=_body(real))
    assert again.status_code == 200


async def test_tritons_series_are_on_the_same_page(
    real: RealGateway, real_http: httpx.AsyncClient
) -> None:
    """Whatever the pod reports is on one page, and each series says of which model it is."""
    await real_http.post("/v1/chat/completions", json=_body(real))
    page = ""

    async def is_complete() -> bool:
        nonlocal page
        page = (await real_http.get("/metrics")).text
        return "nv_inference_count" in page

    # A server that is slow to answer costs its part of the page.
    await eventually_async(is_complete, pause_seconds=0.2)
    samples = [
        sample for family in text_string_to_metric_families(page) for sample in family.samples
    ]
    ours = {one.name for one in samples if one.labels.get("model") == real.model}
    tritons = {one.labels["triton_model"] for one in samples if "triton_model" in one.labels}

    assert {"mm_requests_running", "mm_server_restarts_total", "nv_trt_llm_request_metrics"} <= ours
    assert {"ensemble", "tensorrt_llm"} <= tritons
    assert [
        one
        for one in samples
        if one.labels.get("model") != real.model and one.name.startswith(("mm_", "nv_"))
    ] == []


async def test_metrics_count_what_was_requested(
    real: RealGateway, real_http: httpx.AsyncClient
) -> None:
    """Histograms and token counters move with a request; no text of a user is in them."""
    before = (await real_http.get("/metrics")).text
    await real_http.post("/v1/chat/completions", json=_body(real, user="another"))
    after = (await real_http.get("/metrics")).text
    label = f'{{model="{real.model}"}}'
    for series, grown in (
        ("mm_time_to_first_token_seconds_count", 1),
        ("mm_queue_seconds_count", 1),
        ("mm_request_seconds_count", 1),
        ("mm_requests_accepted_total", 1),
        ("mm_images_total", 1),
        ("mm_image_tokens_total", FEATURES_PER_IMAGE),
    ):
        pattern = re.escape(series + label) + r" (\S+)"
        found = [re.search(pattern, text) for text in (before, after)]
        first, second = (float(match[1]) for match in found if match is not None)
        assert grown == second - first
    assert "another" not in after


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


async def test_images_need_a_conversation(real: RealGateway, real_client: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError, match="stands for an image") as refusal:
        await real_client.completions.create(model=real.model, prompt="<image> what ?")
    assert refusal.value.param == "prompt"
