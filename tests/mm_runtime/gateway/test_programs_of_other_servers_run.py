"""Programs that were written for DashInfer-VLM's and vLLM's servers run: the real path."""

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError

from support.real_gateway import RealGateway
from support.tiny_llava import samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SAMPLE = samples()[0]


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
    body = {"model": real.model, "messages": SAMPLE.messages, "temperature": 0}
    answer = await real_http.post("/v1/chat/completions/", json=body, follow_redirects=False)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"].strip() == SAMPLE.answer


async def test_images_need_a_conversation(real: RealGateway, real_client: AsyncOpenAI) -> None:
    """What stands for an image is refused by name."""
    with pytest.raises(BadRequestError, match="stands for an image") as refusal:
        await real_client.completions.create(model=real.model, prompt="<image> what ?")
    assert refusal.value.param == "prompt"
