"""InternVL in OpenGVLab's own layout, `InternVLChatModel`, read as transformers' class has it.

Names, sizes and settings: transformers' convert_internvl_weights_to_hf.py; defaults and what is
refused: configuration_internvl_chat.py, modeling_internvl_chat.py and conversation.py, which such
checkpoints bring along and nothing here runs.
"""

from typing import Any

from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import tower_sizes
from mm_api.families.layouts import JoinedWeights, OtherLayout

DECODERS = ("qwen2", "qwen3", "llama")
"""Model types of language models whose blocks are planned and served."""

DECODER_KEYS = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps"),
    *("max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters", "layer_types"),
    *("attention_bias", "mlp_bias", "use_sliding_window", "sliding_window", "max_window_layers"),
    *("bos_token_id", "eos_token_id", "pad_token_id"),
)
"""Keys of llm_config that the classes of `DECODERS` read; others are of the checkpoint's code,
`attn_implementation` among them."""

TOWER = tower_sizes(3200, 12800, 48, 25, 224, 14) | {"num_channels": 3}
"""Defaults of InternVisionConfig, those of InternViT-6B."""

EXPECTED: tuple[tuple[str, Any, Any], ...] = (
    ("downsample_ratio", 0.5, 0.5),
    ("select_layer", -1, -1),
    ("ps_version", "v1", "v2"),
    ("use_thumbnail", False, True),
)
"""Key, default of InternVLChatConfig, and the value of every published InternVL2, 2.5 and 3."""

MOST_TILES, LEAST_TILES = 6, 1
"""Defaults of max_dynamic_patch and min_dynamic_patch in InternVLChatConfig."""

ENDS = {"internvl2_5": "<|im_end|>\n", "Hermes-2": "<|im_end|>", "internlm2-chat": "<|im_end|>"}
"""`template` of config.json -> what ends a turn, in conversation.py; the turns are alike."""

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
"""Values of ImageNet, which the model cards' programs use for every checkpoint."""


def config(given: JsonObject) -> JsonObject:
    """Return config.json as InternVLConfig has it."""
    text = section(given, "llm_config") or {}
    kind = text.get("model_type")
    if kind == "internlm2":
        raise invalid(
            "llm_config.model_type is 'internlm2': transformers has no class of InternLM2, and no"
            " backend here runs the checkpoint's code. Nearest: an InternVL3 of OpenGVLab, whose"
            " language model is Qwen2"
        )
    if kind not in DECODERS:
        raise invalid(
            f"llm_config.model_type is {kind!r}; expected one of {', '.join(DECODERS)}. Nearest: an"
            " InternVL3 of OpenGVLab, whose language model is Qwen2"
        )
    for key, default, expected in EXPECTED:
        if given.get(key, default) != expected:
            raise invalid(
                f"{key} is {given.get(key, default)!r}; expected {expected!r}, as in InternVL 3"
            )
    tower = _tower(given)
    forced = given.get("force_image_size")
    if forced not in {None, tower["image_size"]}:
        raise invalid(
            f"force_image_size is {forced!r} and vision_config.image_size {tower['image_size']}:"
            " positions would have to be resized; expected the same number"
        )
    chat(given)
    tied = bool(text.get("tie_word_embeddings", False))
    decoder = {key: text[key] for key in DECODER_KEYS if text.get(key) is not None}
    found = {
        "model_type": "internvl",
        "architectures": ["InternVLForConditionalGeneration"],
        "text_config": decoder | {"tie_word_embeddings": tied},
        "vision_config": tower,
        "downsample_ratio": 0.5,
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "default",
        "tie_word_embeddings": tied,
    }
    dtype = given.get("dtype") or given.get("torch_dtype")
    return found | ({"dtype": dtype} if dtype else {})


def _tower(given: JsonObject) -> JsonObject:
    values = section(given, "vision_config") or {}
    size = Sizes(values, TOWER, "vision_config")
    norm = values.get("norm_type", "rms_norm")
    if norm not in {"rms_norm", "layer_norm"}:
        raise invalid(f"vision_config.norm_type is {norm!r}; expected rms_norm or layer_norm")
    return {key: size(key) for key in TOWER} | {
        "hidden_act": values.get("hidden_act", "gelu"),
        "layer_norm_eps": values.get("layer_norm_eps", 1e-6),
        "norm_type": norm,
        "use_qk_norm": bool(values.get("qk_normalization", True)),
        "attention_bias": bool(values.get("qkv_bias", False)),
    }


def processor(given: JsonObject, own: JsonObject) -> JsonObject:
    """Return the settings of GotOcr2ImageProcessor, as the model cards' programs cut images."""
    size = Sizes(given, {}, "config.json")
    least, most = size("min_dynamic_patch", LEAST_TILES), size("max_dynamic_patch", MOST_TILES)
    if not given.get("dynamic_image_size", False):
        least = most = 1
    if least > most:
        raise invalid(f"min_dynamic_patch is {least} and max_dynamic_patch {most}")
    side = _tower(given)["image_size"]
    return {
        "image_processor_type": "GotOcr2ImageProcessor",
        "size": {"height": side, "width": side},
        "crop_to_patches": True,
        "min_patches": least,
        "max_patches": most,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "do_convert_rgb": True,
        "resample": 3,  # bicubic
        "rescale_factor": 1 / 255,
        "image_mean": own.get("image_mean", MEAN),
        "image_std": own.get("image_std", STD),
    }


def chat(given: JsonObject) -> str:
    """Return the template of the checkpoint's conversations; a system message is the user's."""
    name = given.get("template")
    end = ENDS.get(name) if isinstance(name, str) else None
    if end is None:
        raise invalid(f"template is {name!r}; expected one of {', '.join(ENDS)}")
    written = end.replace("\n", "\\n")
    return (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}{{ '<IMG_CONTEXT>\\n' }}"
        "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endif %}{{ '" + written + "' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )


LAYER = r"^vision_model\.encoder\.layers\.(\d+)\."
NAMES = (
    (r"^vision_model\.embeddings\.class_embedding", "vision_model.embeddings.cls_token"),
    (
        r"^vision_model\.embeddings\.position_embedding",
        "vision_model.embeddings.position_embeddings",
    ),
    (
        r"^vision_model\.embeddings\.patch_embedding\.",
        "vision_model.embeddings.patch_embeddings.projection.",
    ),
    (LAYER + "ls1", r"vision_model.encoder.layers.\1.lambda_1"),
    (LAYER + "ls2", r"vision_model.encoder.layers.\1.lambda_2"),
    (LAYER + "norm1", r"vision_model.encoder.layers.\1.layernorm_before"),
    (LAYER + "norm2", r"vision_model.encoder.layers.\1.layernorm_after"),
    (LAYER + r"attn\.proj\.", r"vision_model.encoder.layers.\1.attention.projection_layer."),
    (LAYER + r"attn\.", r"vision_model.encoder.layers.\1.attention."),
    (r"^vision_model\.encoder\.layers\.", "vision_tower.encoder.layer."),
    (r"^vision_model\.", "vision_tower."),
    (r"^mlp1\.0\.", "multi_modal_projector.layer_norm."),
    (r"^mlp1\.1\.", "multi_modal_projector.linear_1."),
    (r"^mlp1\.3\.", "multi_modal_projector.linear_2."),
    (r"^language_model\.lm_head\.", "lm_head."),
    (r"^language_model\.model\.", "language_model."),
)
JOINED = (
    JoinedWeights("attention.qkv", ("attention.q_proj", "attention.k_proj", "attention.v_proj")),
)


INTERNVL_CHAT = OtherLayout(
    model_type="internvl_chat",
    config=config,
    image_token="<IMG_CONTEXT>",  # noqa: S106 (a token of a vocabulary)
    processor=processor,
    chat=chat,
    end_token="<|im_end|>",  # noqa: S106 (as above)
    names=NAMES,
    joined=JOINED,
)
