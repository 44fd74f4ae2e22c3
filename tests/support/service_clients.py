"""Clients of models that a cluster serves."""

from openai import OpenAI

from support.installed import Space


def client_of(space: Space, model: str) -> OpenAI:
    address = space.get("service", model)["spec"]["clusterIP"]
    return OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0, timeout=60)
