"""Qwen2.5-Omni, its thinker: images and recordings in, text out.

The checkpoint's talker, which answers in speech, is not loaded. TensorRT-LLM has no class of it
(MODEL_ARCH_TO_MODULE of tensorrt_llm/_torch/models/_arch_index.py, 1.3.0rc).
"""

from dataclasses import replace
from math import ceil, floor, isqrt, sqrt

from mm_api.checkpoint.text import decoder_sizes, text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, section
from mm_api.documents.model_facts import AudioFacts, VisionFacts
from mm_api.families import qwen2_5_vl, qwen2_audio, qwen2_vl
from mm_api.families.generic import GENERIC
from mm_api.families.image_layouts.layout import OWN
from mm_api.families.prompt import PromptStyle, chatml

TEXT_SIZES = decoder_sizes(3584, 18944, 28, 28, 152_064, 32768) | {"num_key_value_heads": 4}
"""Defaults of Qwen2_5OmniTextConfig."""

TOWER = qwen2_5_vl.TOWER
"""Defaults of Qwen2_5OmniVisionEncoderConfig, too."""

SECONDS = 30
"""chunk_length of WhisperFeatureExtractor where a checkpoint does not name it."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Qwen2.5-Omni checkpoint's thinker; CheckpointError: wrong sizes."""
    thinker = section(config, "thinker_config") or {}
    text = TEXT_SIZES | (section(thinker, "text_config") or {})
    tower = Sizes(section(thinker, "vision_config") or {}, TOWER, "vision_config")
    audio = Sizes(section(thinker, "audio_config") or {}, qwen2_audio.AUDIO, "audio_config")
    reads = Sizes(processor, {}, "preprocessor_config.json")
    qwen2_audio.check_extractor(processor)
    least, most = qwen2_vl.pixel_bounds(processor)
    unit = tower("patch_size") * tower("spatial_merge_size")
    thinks = Sizes(thinker, {"position_id_per_seconds": 25}, "thinker_config")
    samples = reads("chunk_length", SECONDS) * qwen2_audio.EXTRACTOR["sampling_rate"]
    return Dimensions(
        text_facts({"model_type": "qwen2_5_omni_text"} | text, tied_embeddings=False),
        VisionFacts(
            hidden_size=tower("hidden_size"),
            layers=tower("depth"),
            image_size=max(unit, isqrt(most) // unit * unit),
            patch_size=tower("patch_size"),
            features_per_image=max(1, most // unit**2),
            intermediate_size=tower("intermediate_size"),
            attention_heads=tower("num_heads"),
            merge_size=tower("spatial_merge_size"),
            min_pixels=least,
            max_pixels=most,
            tokens_per_second=thinks("position_id_per_seconds"),
        ),
        audio=AudioFacts(
            hidden_size=audio("d_model"),
            layers=audio("encoder_layers"),
            attention_heads=audio("encoder_attention_heads"),
            positions=2 * audio("n_window", 100),
            least_samples=qwen2_audio.LEAST_SAMPLES,
            most_samples=samples,
        ),
    )


def rows_of_image(vision: VisionFacts, height: int, width: int) -> int:
    """Return the features of an image: `smart_resize` of Qwen2VLImageProcessor."""
    least, most = vision.min_pixels or 1, vision.max_pixels or 1
    unit = vision.patch_size * (vision.merge_size or 1)
    high, wide = round(height / unit) * unit, round(width / unit) * unit
    if high * wide > most:
        scale = sqrt(height * width / most)
        high = max(unit, floor(height / scale / unit) * unit)
        wide = max(unit, floor(width / scale / unit) * unit)
    elif high * wide < least:
        scale = sqrt(least / (height * width))
        high, wide = ceil(height * scale / unit) * unit, ceil(width * scale / unit) * unit
    return max(1, high // unit * (wide // unit))


WRAPPER = chatml("<|vision_bos|><|IMAGE|><|vision_eos|>")


QWEN2_5_OMNI = replace(
    GENERIC,
    name="qwen2-5-omni",
    title="Qwen2.5-Omni",
    architectures=("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"),
    model_type="qwen2_5_omni",
    recognised=lambda _: True,
    read=read,
    checkpoint=replace(GENERIC.checkpoint, loaded_as="Qwen2_5OmniThinkerForConditionalGeneration"),
    prompt=PromptStyle(WRAPPER, "<|IMAGE|>", audio="<|AUDIO|>", opening="<|im_start|>"),
    on_reference=False,
    layout=replace(OWN, rows_of_image=rows_of_image),
    audio_features=qwen2_audio.audio_features,
    notes=(
        "answers are texts: the talker is not loaded",
        "videos are not served",
    ),
)
