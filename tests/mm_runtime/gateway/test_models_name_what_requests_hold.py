"""`/v1/models` says what requests to a model may hold."""

from pathlib import Path
from typing import Any

from mm_api.documents.model_facts import AudioFacts
from mm_runtime.gateway.admission.tokens import ContextLimits
from mm_runtime.gateway.api.served_model import ServedModel
from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

AUDIO = AudioFacts(
    hidden_size=1, layers=1, attention_heads=1, positions=1, least_samples=1, most_samples=2
)


@cases(
    "held expected",
    {
        "texts": ({}, ["text"]),
        "images": ({"max_images": 1}, ["text", "image"]),
        "videos": ({"max_images": 2, "max_video_frames": 8}, ["text", "image", "video"]),
        "recordings": ({"audio": AUDIO}, ["text", "audio"]),
        "both": ({"max_images": 1, "audio": AUDIO}, ["text", "image", "audio"]),
        "transcriptions": ({"transcribes": True}, ["audio"]),
    },
)
def test_what_a_model_reads(held: dict[str, Any], expected: list[str]) -> None:
    """As its engine was planned: of a family with images, none where the plan allows none."""
    model = ServedModel(
        name="m",
        backend="Reference",
        family="a family",
        vocabulary_size=8,
        created=0,
        fingerprint="0",
        limits=ContextLimits(max_input_len=8, max_seq_len=16),
        temperature=0.0,
        top_p=1.0,
        **{"max_images": 0, "max_video_frames": 0} | held,
    )

    assert model.input_modalities == expected


async def test_clients_see_it(tmp_path: Path) -> None:
    async with client_of(toy_gateway(tmp_path, ScriptedEngine())) as client:
        (listed,) = (await client.get("/v1/models")).json()["data"]
        alone = (await client.get(f"/v1/models/{MODEL}")).json()

    assert listed["input_modalities"] == ["text", "image"]
    assert alone == listed
