"""One trace from the router to the real Triton's own spans, exported as JSON by its C++ library."""

import asyncio
from pathlib import Path

import httpx
import pytest

from mm_router.catalog import Model
from support.eventually import eventually
from support.otlp_receiver import otlp_receiver
from support.real_gateway import run_pair
from support.routers import route
from support.tiny_llava import samples, shared_engine

PATH = "/v1/chat/completions"
TRACE = "ab" * 16


def test_a_request_with_an_image_is_one_trace(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoder and language model are parts of the gateway's span; others leave no trace."""
    sample = samples()[0]
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with run_pair(shared_engine(tmp_path_factory), tmp_path) as pair:

            async def ask(**more: object) -> list[int]:
                replica = pair.url.removeprefix("http://")
                async with (
                    route({Model("ns", pair.model): [replica]}) as router,
                    httpx.AsyncClient(base_url=router.url, timeout=120) as client,
                ):
                    body = {"model": pair.model, "messages": sample.messages, **more}
                    traced = {"traceparent": f"00-{TRACE}-{'cd' * 8}-01"}
                    answers = [await client.post(PATH, json=body, headers=traced)]
                    assert sample.answer in answers[0].json()["choices"][0]["message"]["content"]
                    answers.append(await client.post(PATH, json=body))
                    async with client.stream(
                        "POST", PATH, json={**body, "stream": True}, headers=traced
                    ) as left:
                        await anext(left.aiter_bytes())
                    answers.append(await client.post(PATH, json=body))
                    return [one.status_code for one in answers]

            assert asyncio.run(ask()) == [200, 200, 200]
            # Triton sends what it has after a few seconds.
            eventually(lambda: [one.name for one in receiver.spans].count("InferRequest") == 2)
            eventually(lambda: [one.name for one in receiver.spans].count("generate") == 2)
    spans = {one.id: one for one in receiver.spans}

    def above(name: str) -> list[str]:
        """Return the names of the spans that the first one of a name is in, the innermost first."""
        one = next(one for one in receiver.spans if one.name == name)
        found = []
        while one.parent in spans:
            one = spans[one.parent]
            found.append(one.name)
        return found

    requests = ["generate", f"POST {PATH}", f"POST {PATH}"]
    for model in ("preprocessing", "multimodal_encoders", "tensorrt_llm"):
        assert above(model) == ["token_ensemble", "InferRequest", *requests]
    assert {one.trace for one in receiver.spans} == {TRACE}
    assert {one.service for one in receiver.spans} == {
        *("multimodal-router", "multimodal-gateway", "multimodal-server")
    }
