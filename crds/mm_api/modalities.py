"""PURE: what requests to a model may hold: gateway, status and router say the same."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

from mm_api.documents.build_plan import BuildPlan, EngineSpec
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.serving_plan import GatewayPlan
from mm_api.families import FAMILIES

Modality = Literal["text", "image", "video", "audio"]

MODALITIES: Final[Sequence[Modality]] = get_args(Modality)
"""In the order in which they are listed."""


def sees_images(engine: EngineSpec) -> bool:
    """Return whether requests may have images, encoded or read by the checkpoint's own class."""
    own = not FAMILIES[engine.family].has_tower
    return engine.vision is not None or (own and engine.limits.max_images_per_request > 0)


def transcribes(facts: ModelFacts) -> bool:
    """Return whether the engine's encoder reads audio, and nothing else is read."""
    return facts.encoder is not None and facts.encoder.mel_bins is not None


def held(*, images: bool, video: bool, audio: bool, only_audio: bool) -> list[Modality]:
    """Return what requests may hold, as `/v1/models` lists it."""
    if only_audio:
        return ["audio"]
    is_held: dict[Modality, bool] = {
        "text": True,
        "image": images,
        "video": video,
        "audio": audio,
    }
    return [name for name in MODALITIES if is_held[name]]


def planned(plan: BuildPlan, gateway: GatewayPlan) -> list[Modality]:
    """Return what requests to a planned model may hold."""
    sees = sees_images(plan.engine)
    return held(
        images=sees and gateway.max_images_per_request > 0,
        video=sees and gateway.max_video_frames > 0,
        audio=plan.facts.audio is not None,
        only_audio=transcribes(plan.facts),
    )
