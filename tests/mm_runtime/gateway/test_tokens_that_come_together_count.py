"""Tokens that came together leave in one event, and each of them counts."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.dataplane import Finished, Piece
from mm_runtime.gateway.http.record import ExchangeRecord
from mm_runtime.gateway.metrics import GatewayMetrics
from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "what is it ?"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


class Joining(ScriptedEngine):
    """Gives out five tokens in two responses, or one by one where that is queried."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        self.requests.append(request)
        words = ("a", " red", " square", " and", " more")
        if request.token_by_token:
            for word in words:
                yield Text(word)
        else:
            yield Text("a red", 2)
            yield Text(" square and more", 3)
        yield Ended(FinishReason.STOP, len(words))


@cases(
    "stop texts tokens",
    {
        "together": (None, ["a red", " square and more"], 5),
        "cut-at-a-stop-string": ("square", ["a", " red", " "], 3),
    },
)
async def test_events_and_usage(
    tmp_path: Path, stop: str | None, texts: list[str], tokens: int
) -> None:
    """One event a response; an answer that is cut counts to the token that ended it."""
    body = {**QUESTION, **({} if stop is None else {"stop": stop})}
    async with client_of(toy_gateway(tmp_path, Joining())) as client:
        response = await client.post("/v1/chat/completions", json=body)
    lines = response.text.strip().split("\n\n")[:-1]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    written = [one["choices"][0]["delta"].get("content") for one in events if one["choices"]]
    assert texts == [text for text in written if text]
    assert tokens == events[-1]["usage"]["completion_tokens"]


def _values(metrics: GatewayMetrics, name: str) -> tuple[float, float]:
    page = metrics.render().decode().splitlines()
    count, total = (
        next(float(line.rsplit(" ", 1)[1]) for line in page if line.startswith(f"{name}_{part}"))
        for part in ("count", "sum")
    )
    return count, total


def test_latencies_are_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """One time to the first token; every other token has its share of the time before it came."""
    clock = iter([10.0, 11.0, 14.0, 14.5, 15.0, 16.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock, 17.0))
    metrics = GatewayMetrics(MODEL)
    record = ExchangeRecord(metrics, "r")  # at 10
    for event in (Piece("a red", 2), Piece(" square and more", 3), Piece("", 1), Piece(".", 0)):
        record.event(event)  # at 11, 14, 14.5 and 15
    record.event(Finished(6))
    record.completed()
    assert _values(metrics, "mm_time_to_first_token_seconds") == (1, 1)
    assert _values(metrics, "mm_inter_token_seconds") == (5, 3.5)
