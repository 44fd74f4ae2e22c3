"""What the configuration files say about a model."""

from dataclasses import dataclass

from mm_api.documents.model_facts import AudioFacts, EncoderFacts, TextFacts, VisionFacts


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The parts that a model has, and their sizes."""

    text: TextFacts
    vision: VisionFacts | None = None
    encoder: EncoderFacts | None = None
    audio: AudioFacts | None = None
    image_token_id: int | None = None
