"""Clients of models that a cluster serves."""

from typing import Any

from openai import OpenAI

from support.installed import Space
from support.tiny_llava import samples


def client_of(space: Space, model: str) -> OpenAI:
    address = space.get("service", model)["spec"]["clusterIP"]
    return OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0, timeout=60)


def is_answered(address: str, model: str, *, stream: bool) -> bool:
    """Send as the official client does, again what was cut; return whether the answer is right."""
    sample = samples()[0]
    with OpenAI(base_url=address, api_key="none", max_retries=20, timeout=400) as client:
        return answer_to(client, model, sample.messages, stream=stream) == sample.answer


def answer_to(client: OpenAI, model: str, messages: list[dict[str, Any]], *, stream: bool) -> str:
    """Return the text of the likeliest answer."""
    request: Any = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 24}
    if not stream:
        return str(client.chat.completions.create(**request).choices[0].message.content)
    chunks = client.chat.completions.create(**request, stream=True)
    return "".join(one.choices[0].delta.content or "" for one in chunks)
