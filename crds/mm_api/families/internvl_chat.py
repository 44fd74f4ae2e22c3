"""InternVL in OpenGVLab's own layout, `InternVLChatModel`, read as transformers' class has it.

Names, sizes and settings: transformers' convert_internvl_weights_to_hf.py; defaults and what is
refused: configuration_internvl_chat.py, modeling_internvl_chat.py and conversation.py, which such
checkpoints bring along and nothing here runs.
"""

from typing import Any

from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import tower_sizes
from mm_api.families.layouts import JoinedWeights, OtherLayout, Shapes

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

MERGED = 2
"""Patches a side that become one feature: downsample_ratio is 0.5."""

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


def shapes(given: JsonObject) -> Shapes:
    """Return every weight with its shape."""
    found = config(given)
    return _tower_shapes(found["vision_config"]) | _other_shapes(found)


def _linear(name: str, outputs: int, inputs: int, *, bias: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {f"{name}.weight": (outputs, inputs)}
    return found | ({f"{name}.bias": (outputs,)} if bias else {})


def _tower_shapes(tower: JsonObject) -> dict[str, tuple[int, ...]]:
    wide, inner, patch = tower["hidden_size"], tower["intermediate_size"], tower["patch_size"]
    positions = (tower["image_size"] // patch) ** 2 + 1
    start = "vision_model.embeddings"
    found: dict[str, tuple[int, ...]] = {
        f"{start}.class_embedding": (1, 1, wide),
        f"{start}.position_embedding": (1, positions, wide),
        f"{start}.patch_embedding.weight": (wide, tower["num_channels"], patch, patch),
        f"{start}.patch_embedding.bias": (wide,),
    }
    vectors = ["ls1", "ls2", "norm1.weight", "norm2.weight"]
    vectors += ["norm1.bias", "norm2.bias"] if tower["norm_type"] == "layer_norm" else []
    vectors += ["attn.q_norm.weight", "attn.k_norm.weight"] if tower["use_qk_norm"] else []
    for number in range(tower["num_hidden_layers"]):
        layer = f"vision_model.encoder.layers.{number}"
        found |= {f"{layer}.{name}": (wide,) for name in vectors}
        found |= _linear(f"{layer}.attn.qkv", 3 * wide, wide, bias=tower["attention_bias"])
        found |= _linear(f"{layer}.attn.proj", wide, wide)
        found |= _linear(f"{layer}.mlp.fc1", inner, wide)
        found |= _linear(f"{layer}.mlp.fc2", wide, inner)
    return found


def _other_shapes(found: JsonObject) -> dict[str, tuple[int, ...]]:
    """Return the weights of the projector and of the language model."""
    text = found["text_config"]
    kind, size = text["model_type"], Sizes(text, {}, "llm_config")
    hidden, heads, head = size.heads("hidden_size", "num_attention_heads")
    queries, keys = heads * head, size("num_key_value_heads", heads) * head
    inner, vocabulary = size("intermediate_size"), size("vocab_size")
    joined = found["vision_config"]["hidden_size"] * MERGED**2
    weights: dict[str, tuple[int, ...]] = {"mlp1.0.weight": (joined,), "mlp1.0.bias": (joined,)}
    weights |= _linear("mlp1.1", hidden, joined) | _linear("mlp1.3", hidden, hidden)
    weights["language_model.model.embed_tokens.weight"] = (vocabulary, hidden)
    weights["language_model.model.norm.weight"] = (hidden,)
    if not text["tie_word_embeddings"]:
        weights["language_model.lm_head.weight"] = (vocabulary, hidden)
    biased = kind == "qwen2" or bool(text.get("attention_bias"))
    for number in range(size("num_hidden_layers")):
        layer = f"language_model.model.layers.{number}"
        attention = f"{layer}.self_attn"
        weights |= _linear(f"{attention}.q_proj", queries, hidden, bias=biased)
        weights |= _linear(f"{attention}.k_proj", keys, hidden, bias=biased)
        weights |= _linear(f"{attention}.v_proj", keys, hidden, bias=biased)
        weights |= {f"{attention}.o_proj.weight": (hidden, queries)}
        if kind == "qwen3":
            weights |= {f"{attention}.{one}.weight": (head,) for one in ("q_norm", "k_norm")}
        weights |= {
            f"{layer}.mlp.{one}.weight": (inner, hidden) for one in ("gate_proj", "up_proj")
        }
        weights |= {f"{layer}.mlp.down_proj.weight": (hidden, inner)}
        norms = ("input_layernorm", "post_attention_layernorm")
        weights |= {f"{layer}.{one}.weight": (hidden,) for one in norms}
    return weights


INTERNVL_CHAT = OtherLayout(
    model_type="internvl_chat",
    config=config,
    image_token="<IMG_CONTEXT>",  # noqa: S106 (a token of a vocabulary)
    processor=processor,
    chat=chat,
    end_token="<|im_end|>",  # noqa: S106 (as above)
    names=NAMES,
    joined=JOINED,
    shapes=shapes,
)
