"""What requests may hold follows from the plan, as the gateway says it of its engine."""

from mm_api.documents.model_facts import AudioFacts, EncoderFacts
from mm_api.modalities import MODALITIES, held, planned
from support.cases import cases
from support.gateways import toy_manifest, toy_serving

AUDIO = AudioFacts(
    hidden_size=1, layers=1, attention_heads=1, positions=1, least_samples=1, most_samples=2
)
WHISPER = EncoderFacts(
    hidden_size=1, intermediate_size=1, layers=1, attention_heads=1, head_size=1, mel_bins=80
)


@cases(
    "facts gateway expected",
    {
        "images": ({}, {}, ["text", "image"]),
        "none-allowed": ({}, {"max_images_per_request": 0}, ["text"]),
        "videos": ({}, {"max_video_frames": 8}, ["text", "image", "video"]),
        "recordings": ({"audio": AUDIO}, {}, ["text", "image", "audio"]),
        "transcriptions": ({"encoder": WHISPER}, {}, ["audio"]),
    },
)
def test_of_a_plan(
    facts: dict[str, object], gateway: dict[str, object], expected: list[str]
) -> None:
    plan = toy_manifest().plan
    plan = plan.model_copy(update={"facts": plan.facts.model_copy(update=facts)})

    assert planned(plan, toy_serving(**gateway).gateway) == expected


def test_texts_alone() -> None:
    plan = toy_manifest().plan
    plan = plan.model_copy(update={"engine": plan.engine.model_copy(update={"vision": None})})

    assert planned(plan, toy_serving().gateway) == ["text"]


def test_modalities_are_listed_in_one_order() -> None:
    assert held(images=True, video=True, audio=True, only_audio=False) == list(MODALITIES)
