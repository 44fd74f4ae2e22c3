"""LoRA adapters through the real server: by id at Triton, by name at the gateway."""

from pathlib import Path

import pytest
from openai import OpenAI

from mm_api.documents.engine_manifest import EngineManifest
from support.ensemble import Ensemble, query_all
from support.images import data_url
from support.real_gateway import gateway_before
from support.served import Served
from support.tiny_llava import IMAGES, BuiltEngine

pytestmark = pytest.mark.triton

RED_SQUARE = data_url((IMAGES / "red-square.png").read_bytes())
QUESTION = "What is in the image?"
ANSWERS = {None: "a red square", 0: "red", 2**64 - 1: "a red square"}
"""`lora_task_id` -> answer; the last one is -1 as an unsigned number, upstream's base model."""


def _requested(adapter: int | None) -> dict[str, object]:
    named = {} if adapter is None else {"lora_task_id": adapter}
    return {"image_url_input": RED_SQUARE, **named}


def test_the_engine_keeps_adapters_with_digests(built_engine: BuiltEngine) -> None:
    """Its files are the adapter's, and part of what is verified before a pod serves."""
    manifest = EngineManifest.from_json(built_engine.manifest.read_bytes())
    kept = {file.path for file in manifest.files if file.path.startswith("adapters/")}
    folder = "adapters/colors"
    assert kept == {f"{folder}/adapter_config.json", f"{folder}/adapter_model.safetensors"}
    assert [(one.name, one.uid) for one in manifest.plan.adapters] == [("colors", 0)]


def test_requests_of_one_batch_use_their_own(served: Served) -> None:
    """Twelve at once, by streams and as an entire: the guide's 0 -1 -1 0 0 -1, and no id."""
    base = 2**64 - 1
    requested = [0, base, base, 0, 0, base, 0, None, None, 0, 0, None]
    questions = [
        (QUESTION, {**_requested(adapter), "stream": number % 2 == 0})
        for number, adapter in enumerate(requested)
    ]
    answers = [answer.text for answer in query_all(served.grpc_url, questions)]
    assert answers == [ANSWERS[adapter] for adapter in requested]


def test_both_models_take_the_id(served: Served, model: str) -> None:
    with Ensemble(served.grpc_url, model) as client:
        found = [client.query(QUESTION, **_requested(adapter)).text for adapter in ANSWERS]
    assert found == list(ANSWERS.values())


def test_the_official_client_selects_by_name(
    served: Served, built_engine: BuiltEngine, tmp_path: Path
) -> None:
    """An adapter is a model of its own beside the base model."""
    content = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": RED_SQUARE}},
    ]
    with gateway_before(built_engine, served.grpc_url, tmp_path) as url:
        client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
        names = [one.id for one in client.models.list()]
        answers = [
            client.chat.completions.create(
                model=name, messages=[{"role": "user", "content": content}]
            )
            .choices[0]
            .message.content
            for name in (*names, "tiny:colors")
        ]
    assert names == ["tiny", "colors"]
    assert answers == ["a red square", "red", "red"]
