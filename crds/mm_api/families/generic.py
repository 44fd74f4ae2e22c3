"""Checkpoints of no family here whose class transformers knows from image and text to text.

Their process runs the checkpoint's own class and processor, so nothing of it is known before but
sizes: `known_classes.json` holds the classes of the pinned transformers, with the defaults of
their configurations. What an image becomes is the processor's to say; the plan's figures are
estimates.
"""

from dataclasses import replace
from typing import Any

from mm_api.checkpoint.experts import experts_of
from mm_api.checkpoint.text import TEXT_DEFAULTS, text_facts
from mm_api.checkpoint.values import LARGEST, Dimensions, JsonObject, section
from mm_api.checkpoint.vision import image_token
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.checkpoint_files import CheckpointFiles
from mm_api.families.family import NO_ENGINES, Family
from mm_api.families.image_layouts.layout import OWN
from mm_api.families.known_classes import CLASSES
from mm_api.families.prompt import PLACEHOLDER, prompt_style
from mm_api.families.text_block import LLAMA

_SIDE, _PATCH = 448, 14
"""Pixels of towers whose configuration does not say it: most of them have these."""

_MERGED = ("downsample_factor", "scale_factor", "spatial_merge_size")
"""Keys of config.json for how many patches along a side become one feature."""

_TILES = ("max_patches", "max_image_tiles", "max_num")
"""Keys of the image processor for the most tiles of an image."""


def is_known(config: JsonObject) -> bool:
    """Return whether transformers has a class from image and text to text for a config.json."""
    kind = config.get("model_type")
    return isinstance(kind, str) and kind in CLASSES


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the language model's sizes, and estimates of its tower; CheckpointError: wrong ."""
    kind = str(config["model_type"])
    known = CLASSES[kind]
    text = section(config, "text_config") if "textType" in known else config
    text = dict(text or {})
    own = str(text.get("model_type", known.get("textType", kind)))
    defaults: dict[str, Any] = dict(TEXT_DEFAULTS.get(own, {}))
    if not text:  # the class's own choice
        defaults = dict(known["text"])
    elif own == known.get("textType", kind):
        defaults = _independent(known["text"], text) | defaults
    merged = defaults | {key: value for key, value in text.items() if value is not None}
    if type(width := merged.get("hidden_size")) is int:
        merged.setdefault("intermediate_size", 4 * width)
    if isinstance(widths := merged.get("intermediate_size"), list):  # Gemma 3n's, of each layer
        merged["intermediate_size"] = max(
            (one for one in widths if type(one) is int), default=widths
        )
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    experts = experts_of(own, merged)
    facts = text_facts({"model_type": own} | merged, tied_embeddings=tied, experts=experts)
    vision = _tower(config, processor, known)
    return Dimensions(facts, vision, image_token_id=image_token(config))


def _independent(defaults: JsonObject, text: JsonObject) -> JsonObject:
    """Return the defaults of a class without those that follow from a value that is given."""
    heads, width = defaults.get("num_attention_heads"), defaults.get("hidden_size")
    follows = set()
    if "num_attention_heads" in text and defaults.get("num_key_value_heads") == heads:
        follows.add("num_key_value_heads")
    if heads and width and defaults.get("head_dim") == width // heads:
        follows |= {"head_dim"} if {"hidden_size", "num_attention_heads"} & {*text} else set()
    return {key: value for key, value in defaults.items() if key not in follows}


def _tower(config: JsonObject, processor: JsonObject, known: JsonObject) -> VisionFacts:
    """Return the sizes of the tower as far as they are stated, and the features of an image."""
    values = known.get("vision", {}) | _numbers(section(config, "vision_config") or {})
    side, patch = values.get("image_size", _SIDE), values.get("patch_size", _PATCH)
    merged = next((config[key] for key in _MERGED if type(config.get(key)) is int), 1)
    tiles = max((processor[key] for key in _TILES if type(processor.get(key)) is int), default=1)
    latents = (section(config, "perceiver_config") or {}).get("resampler_n_latents")
    one = latents if type(latents) is int else (side // patch // max(1, merged)) ** 2
    return VisionFacts(
        hidden_size=values.get("hidden_size", 1024),
        layers=values.get("num_hidden_layers", 24),
        image_size=max(side, patch),
        patch_size=patch,
        features_per_image=min(LARGEST, max(1, one) * (tiles + 1 if tiles > 1 else 1)),
        attention_heads=values.get("num_attention_heads"),
    )


def _numbers(values: JsonObject) -> dict[str, int]:
    """Return integers; of a pair of equal ones the one."""
    flat = {
        key: value[0] if isinstance(value, list) and len(set(map(str, value))) == 1 else value
        for key, value in values.items()
    }
    return {key: one for key, one in flat.items() if type(one) is int and 0 < one <= LARGEST}


GENERIC = Family(
    name="generic",
    title="another class of transformers",
    architectures=(),
    model_type=None,
    recognised=is_known,
    read=read,
    dtypes=("bfloat16", "float16", "float32"),
    dtype_reason="the type of most published checkpoints",
    layout=OWN,
    text=replace(LLAMA, adapters=False),
    trtllm=replace(NO_ENGINES, pipeline_parallel=False),
    checkpoint=CheckpointFiles(decoder=None, loaded_as="AutoModelForImageTextToText"),
    prompt=prompt_style(PLACEHOLDER),
    template_tokens=64,
    notes=(
        "tokens of an image are estimates; requests are decoded one after another, on a processor",
    ),
)
