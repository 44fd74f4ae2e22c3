"""Segments in which nothing is said have numbers as all others: typed clients read them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.audio_files import encode_audio, noise
from support.audio_gateways import audio_gateway
from support.gateways import MODEL


class Silent:
    """An engine that ends each answer at once."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        del request
        yield Text("", 0)
        yield Ended(FinishReason.STOP, 0)

    async def is_ready(self) -> bool:
        return True


async def test_nothing_is_said(tmp_path: Path) -> None:
    """`avg_logprob` of no tokens is that of certainty, and not null."""
    gateway = audio_gateway(tmp_path, Silent())
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gateway.app), base_url="http://gateway"
        ) as client:
            answer = await client.post(
                "/v1/audio/transcriptions",
                data={"model": MODEL, "language": "en", "response_format": "verbose_json"},
                files={"file": ("a.wav", encode_audio(noise(0.3, seed=1)))},
                timeout=60,
            )
    finally:
        gateway.close()
    assert answer.status_code == 200
    (segment,) = answer.json()["segments"]
    assert (segment["text"], segment["avg_logprob"]) == ("", 0)
