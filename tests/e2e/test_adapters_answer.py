"""A LoRA adapter on a full cluster: `kubectl apply`, and the OpenAI endpoint answers with both."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from support.images import data_url
from support.installed import CLAIM, Installed, Space, model_space
from support.service_clients import client_of
from support.tiny_llava import ADAPTERS, CHECKPOINT, IMAGES

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

MODEL, ADAPTER = "shapes", "colors"
READY_SECONDS = 500
"""A build and a pod that share two cores with the test."""

REQUESTED = (
    ("red-square.png", "What is in the image?", "a red square", "red"),
    ("big-green-triangle.png", "What do you see?", "a green triangle", "green"),
    (
        "blue-circle-yellow-cross.png",
        "Describe the image.",
        "a blue circle and a yellow cross",
        "blue and yellow",
    ),
)
"""Image, question, and what the base model and the adapter say of it."""


@pytest.fixture(name="space", scope="module")
def adapted_model(installed: Installed) -> Iterator[Space]:
    with model_space(installed, "adapters") as space:
        space.upload(CHECKPOINT, "tiny")
        space.upload(ADAPTERS[ADAPTER], "colors")
        source = {"persistentVolumeClaim": {"claimName": CLAIM, "path": "colors"}}
        lora = [{"name": ADAPTER, "source": source}]
        space.apply(space.model(MODEL, "tiny", engine={"lora": lora}))
        space.wait_ready(MODEL, READY_SECONDS)
        yield space


@pytest.fixture(name="client")
def openai_client(space: Space) -> Iterator[OpenAI]:
    with client_of(space, MODEL) as client:
        yield client


def _query(client: OpenAI, model: str, image: str, question: str) -> str | None:
    content: Any = [
        {"type": "image_url", "image_url": {"url": data_url((IMAGES / image).read_bytes())}},
        {"type": "text", "text": question},
    ]
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": content}], temperature=0
    )
    return answer.choices[0].message.content


def test_both_models_answer(client: OpenAI) -> None:
    assert [one.id for one in client.models.list()] == [MODEL, ADAPTER]
    names = (MODEL, ADAPTER, f"{MODEL}:{ADAPTER}")
    wanted = [(model, one) for one in REQUESTED for model in names]
    with ThreadPoolExecutor(len(wanted)) as pool:
        found = list(
            pool.map(lambda requested: _query(client, requested[0], *requested[1][:2]), wanted)
        )
    assert [reported[2] if model == MODEL else reported[3] for model, reported in wanted] == found
    with pytest.raises(NotFoundError, match="unknown"):
        _query(client, "unknown", *REQUESTED[0][:2])
