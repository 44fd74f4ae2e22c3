"""What clients write appears neither in the log nor in the metrics, answered or refused."""

import json
import logging
from pathlib import Path

import pytest

from mm_runtime.gateway.errors import EngineFailedError
from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

SECRET = "hunter2"


def _image(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


@cases(
    "part",
    {
        "text": {"type": "text", "text": SECRET},
        "part-type": {"type": SECRET},
        "url": _image(f"https://{SECRET}.invalid/x.png"),
        "media-type": _image(f"data:{SECRET};base64,AAAA"),
        "plain_image": _image(data_url(encode(plain_image()) + SECRET.encode())),
    },
)
@pytest.mark.parametrize(
    "engine",
    [ScriptedEngine(), ScriptedEngine(pieces=(), error=EngineFailedError("no"))],
    ids=["answers", "fails"],
)
async def test_neither_log_nor_metrics_hold_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    engine: ScriptedEngine,
    part: dict[str, object],
) -> None:
    """Every record of the log, with its extra fields and traceback, and every series."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}],
        "user": SECRET,
        "metadata": {"key": SECRET},
    }
    with caplog.at_level(logging.DEBUG, logger="mm_runtime"):
        async with client_of(toy_gateway(tmp_path, engine)) as client:
            await client.post("/v1/chat/completions", json=body)
            metrics = (await client.get("/metrics")).text
    ours = [vars(record) for record in caplog.records if record.name.startswith("mm_runtime")]
    assert ours
    assert SECRET not in json.dumps(ours, default=str) + caplog.text
    assert SECRET not in metrics
