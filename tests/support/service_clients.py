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
    request: Any = {"model": model, "messages": sample.messages, "temperature": 0, "max_tokens": 24}
    with OpenAI(base_url=address, api_key="none", max_retries=20, timeout=400) as client:
        if not stream:
            answer = client.chat.completions.create(**request)
            return str(answer.choices[0].message.content) == sample.answer
        chunks = client.chat.completions.create(**request, stream=True)
        return "".join(one.choices[0].delta.content or "" for one in chunks) == sample.answer
