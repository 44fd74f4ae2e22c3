"""One trace from the router to the real Triton's own spans, exported as JSON by its C++ library."""

from pathlib import Path

import httpx
import pytest

from mm_router.catalog import Model
from support.eventually import eventually_async
from support.otlp_receiver import otlp_receiver
from support.real_gateway import run_pair
from support.routers import route
from support.tiny_llava import samples, shared_engine

PATH = "/v1/chat/completions"
TRACED = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}


@pytest.mark.slow
async def test_encoder_and_language_model_are_parts_of_the_gateways_span(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a client leaves; requests that are not recorded leave nothing."""
    with otlp_receiver() as receiver:
        for name, value in (
            ("EXPORTER_OTLP_ENDPOINT", receiver.url),
            ("TRACES_SAMPLER", "parentbased_always_off"),
            ("BSP_SCHEDULE_DELAY", "100"),
        ):
            monkeypatch.setenv(f"OTEL_{name}", value)
        with run_pair(shared_engine(tmp_path_factory), tmp_path) as pair:
            body = {"model": pair.model, "messages": samples()[0].messages}
            async with (
                route({Model("ns", pair.model): [pair.url.removeprefix("http://")]}) as router,
                httpx.AsyncClient(base_url=router.url, timeout=120) as client,
            ):
                assert (await client.post(PATH, json=body, headers=TRACED)).status_code == 200
                stream = {**body, "stream": True}
                async with client.stream("POST", PATH, json=stream, headers=TRACED) as left:
                    await anext(left.aiter_bytes())
                assert (await client.post(PATH, json=body)).status_code == 200

            def count(name: str) -> int:
                return [one.name for one in receiver.spans].count(name)

            # Triton sends what it has after a few seconds.
            await eventually_async(lambda: count("InferRequest") == count("generate") == 2)
    spans = {one.id: one for one in receiver.spans}
    assert {one.trace for one in receiver.spans} == {"ab" * 16}
    assert {one.service for one in receiver.spans} == {
        *("multimodal-router", "multimodal-gateway", "multimodal-server")
    }
    around = ["token_ensemble", "InferRequest", "generate", f"POST {PATH}", f"POST {PATH}"]
    for model in ("preprocessing", "multimodal_encoders", "tensorrt_llm"):
        one, above = next(one for one in receiver.spans if one.name == model), []
        while one.parent in spans:
            one = spans[one.parent]
            above.append(one.name)
        assert above == around
