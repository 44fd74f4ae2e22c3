"""The dimensions of a checkpoint of any family, from its parsed configuration files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mm_api.checkpoint import encoder_decoder, llava, multimodal
from mm_api.checkpoint.values import JsonObject, section
from mm_api.documents.model_facts import EncoderFacts, TextFacts, VisionFacts


@dataclass(frozen=True, slots=True)
class Dimensions:
    """What the configuration files say about a model."""

    text: TextFacts
    vision: VisionFacts | None = None
    encoder: EncoderFacts | None = None
    image_token_id: int | None = None


_PICTURES: Mapping[str, Callable[[JsonObject, JsonObject], multimodal.Parts]] = {
    "llava": lambda config, _: llava.read(config),
    "blip2-opt": multimodal.blip2,
    "vila": multimodal.vila,
    "llava-onevision": multimodal.onevision,
    "mllama": multimodal.mllama,
    "qwen2-vl": multimodal.qwen2_vl,
}
_ENCODER_DECODERS: Mapping[str, Callable[[JsonObject], encoder_decoder.Parts]] = {
    "t5": encoder_decoder.t5,
    "flan-t5": encoder_decoder.t5,
    "mt5": encoder_decoder.t5,
    "byt5": encoder_decoder.t5,
    "bart": encoder_decoder.bart,
    "mbart": encoder_decoder.mbart,
    "nmt": encoder_decoder.nmt,
    "whisper": encoder_decoder.whisper,
}


def read(family: str, config: JsonObject, preprocessor: JsonObject) -> Dimensions:
    """Return the dimensions of one checkpoint.

    Args:
        family: what `family.resolve` found.
        config: config.json (FairSeq: the args namespace).
        preprocessor: preprocessor_config.json, empty when there is none.

    Raises:
        CheckpointError: a value is missing, of a wrong type or out of range, or this variant of
            the family cannot be served.
    """
    if family in _PICTURES:
        text, vision, image_token = _PICTURES[family](config, preprocessor)
        return Dimensions(text=text, vision=vision, image_token_id=image_token)
    if family == "blip2-t5":
        decoder, encoder = encoder_decoder.t5(section(config, "text_config") or {})
        return Dimensions(
            text=decoder,
            vision=multimodal.blip2_tower(config),
            encoder=encoder,
            image_token_id=multimodal.image_token(config),
        )
    decoder, encoder = _ENCODER_DECODERS[family](config)
    return Dimensions(text=decoder, encoder=encoder)
