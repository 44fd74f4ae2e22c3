"""Phi-3-vision's checkpoints, `Phi3VForCausalLM`, as classes of transformers have their parts.

The language model is Phi3ForCausalLM, the tower CLIPVisionModel; the projection and the vectors
between features are the checkpoint's own. Defaults, constants and what is refused:
configuration_phi3_v.py, modeling_phi3_v.py, image_embedding_phi3_v.py and processing_phi3_v.py,
which such checkpoints bring along and nothing here runs.
"""

from math import isqrt
from typing import Any

from mm_api.checkpoint.text import decoder_sizes
from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.families.layouts import OtherLayout, Shapes

TEXT: dict[str, Any] = decoder_sizes(3072, 8192, 32, 32, 32064, 4096) | {
    "original_max_position_embeddings": 4096
}
"""Defaults of Phi3VConfig."""

DECODER_KEYS = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "rms_norm_eps"),
    *("num_attention_heads", "num_key_value_heads", "hidden_act", "rope_theta"),
    *("max_position_embeddings", "original_max_position_embeddings"),
    *("bos_token_id", "eos_token_id"),
)
"""Keys of config.json that Phi3Config has too and that are taken as they are."""

TOWER_NAME = "openai/clip-vit-large-patch14-336"
LAYERS, PATCH, HEAD, WIDENED = 24, 14, 64, 4
"""Shape of that tower: layers, pixels of a patch, width of a head, and of a perceptron in hidden
sizes. Its hidden size is `image_dim_out` and its side follows from `num_img_tokens`: 1,024 and
336."""

MERGED = 2
"""Patches a side that become one feature (reshape_hd_patches_2x2merge)."""

MOST_CROPS = 64
"""In one image: 28 MB of pixels as bytes. Published: 4 and 16."""

EXPECTED: tuple[tuple[str, Any, Any], ...] = (
    ("embedding_cls", "image", "image"),
    ("projection_cls", "linear", "mlp"),
    ("use_hd_transform", False, True),
    ("with_learnable_separator", False, True),
    ("hd_transform_order", "glb_sub", "sub_glb"),
)
"""Key of embd_layer, default of Phi3ImageEmbedding, and the value of every published checkpoint."""

ROTATIONS = ("su", "longrope")
"""Names of one way to rotate; `yarn` of the same code scales by another factor."""

MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
"""OPENAI_CLIP_MEAN and OPENAI_CLIP_STD, defaults of Phi3VImageProcessor."""

TOWER = "model.vision_embed_tokens.img_processor.vision_model"
PROJECTION = "model.vision_embed_tokens.img_projection"
LINE_END, SEPARATOR = "model.vision_embed_tokens.sub_GN", "model.vision_embed_tokens.glb_GN"


def tower_of(config: JsonObject) -> tuple[dict[str, int], int]:
    """Return the sizes of the tower as CLIPVisionConfig names them, and the features of a tile.

    Raises:
        CheckpointError: another tower, or sizes that fit together with none.
    """
    given = section(config, "img_processor")
    if given is None:
        raise invalid("img_processor is missing: the checkpoint describes no vision tower")
    for key, expected in (("name", "clip_vision_model"), ("model_name", TOWER_NAME)):
        if given.get(key) != expected:
            raise invalid(f"img_processor.{key} is {given.get(key)!r}; expected {expected!r}")
    if given.get("type_feature", "patch") != "patch":
        raise invalid(
            f"img_processor.type_feature is {given['type_feature']!r}; expected 'patch': a class"
            " token has no place in a grid of tiles"
        )
    size = Sizes(given, {}, "img_processor")
    width, tokens = size("image_dim_out"), size("num_img_tokens")
    if width % HEAD:
        raise invalid(f"img_processor.image_dim_out is {width}; expected a multiple of {HEAD}")
    side = isqrt(tokens)
    if side * side != tokens:
        raise invalid(f"img_processor.num_img_tokens is {tokens}; expected a square, as 144 is")
    tower = {
        "hidden_size": width,
        "intermediate_size": WIDENED * width,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": width // HEAD,
        "image_size": side * MERGED * PATCH,
        "patch_size": PATCH,
    }
    return tower, tokens


def check(given: JsonObject) -> None:
    """Refuse what the classes would compute in another way than the checkpoint's code.

    Raises:
        CheckpointError: `ConfigInvalid`.
    """
    layer = section(given, "embd_layer") or {}
    for key, default, expected in EXPECTED:
        if layer.get(key, default) != expected:
            raise invalid(
                f"embd_layer.{key} is {layer.get(key, default)!r}; expected {expected!r}, as in"
                " Phi-3-vision and Phi-3.5-vision"
            )
    size = Sizes(given, TEXT)
    positions, window = size("max_position_embeddings"), given.get("sliding_window")
    if window is not None and size("sliding_window") < positions:
        raise invalid(
            f"sliding_window is {window} and max_position_embeddings {positions}; expected a window"
            " of all positions: the answer must attend to all of an image and its question"
        )
    _rotation(given)


def _rotation(given: JsonObject) -> JsonObject | None:
    """Return the rotations as Phi3Config has them; None: they are scaled by nothing."""
    scaling = section(given, "rope_scaling")
    if scaling is None:
        return None
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind not in ROTATIONS:
        raise invalid(f"rope_scaling.type is {kind!r}; expected one of {', '.join(ROTATIONS)}")
    _, _, head = Sizes(given, TEXT).heads("hidden_size", "num_attention_heads")
    found: JsonObject = {"rope_type": "longrope"}
    for key in ("short_factor", "long_factor"):
        factors = scaling.get(key)
        if not _are_factors(factors, head // 2):
            raise invalid(
                f"rope_scaling.{key} is {str(factors)[:40]}; expected {head // 2} positive numbers,"
                " one for each pair of a head"
            )
        found[key] = factors
    size = Sizes(given, TEXT)
    longer = size("max_position_embeddings") / size("original_max_position_embeddings")
    # The scale of cosines and sines follows from it; below 1 transformers warns and takes 1.
    return found | {"factor": max(1.0, longer)}


def _are_factors(values: Any, count: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == count
        and all(type(one) in {int, float} and 0 < one < float("inf") for one in values)
    )


def config(given: JsonObject) -> JsonObject:
    """Return config.json as Phi3Config has it, with the sections of the tower beside."""
    check(given)
    tower_of(given)
    values = TEXT | given
    found = {key: values[key] for key in DECODER_KEYS if values.get(key) is not None}
    found |= {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "rope_scaling": _rotation(given),
        "sliding_window": None,
        "pad_token_id": given.get("pad_token_id"),
        "tie_word_embeddings": bool(given.get("tie_word_embeddings", False)),
        "img_processor": given["img_processor"],
        "embd_layer": given["embd_layer"],
    }
    dtype = given.get("dtype") or given.get("torch_dtype")
    return found | ({"dtype": dtype} if dtype else {})


def crops_of(processor: JsonObject) -> int:
    """Return the most tiles of an image, beside the view of all of it.

    Raises:
        CheckpointError: more than fit into a request.
    """
    crops = Sizes(processor, {"num_crops": 1}, "preprocessor_config.json")("num_crops")
    if crops > MOST_CROPS:
        raise invalid(
            f"preprocessor_config.json.num_crops is {crops}; expected {MOST_CROPS} at the most"
        )
    return crops


def processor(given: JsonObject, own: JsonObject) -> JsonObject:
    """Return the settings of Phi3VImageProcessor."""
    del given  # it says nothing about how images are cut up
    return {
        "num_crops": crops_of(own),
        "image_mean": own.get("image_mean") or MEAN,
        "image_std": own.get("image_std") or STD,
        "rescale_factor": 1 / 255,
        "resample": 2,  # bilinear
    }


def chat(given: JsonObject) -> str:
    """Return the template of tokenizer_config.json for messages in parts, an image a line."""
    del given
    return (
        "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' }}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}{{ '<|image|>\\n' }}"
        "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endif %}{{ '<|end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}"
        "{{ '<|assistant|>\\n' }}{% endif %}"
    )


def shapes_beside(given: JsonObject) -> Shapes:
    """Return the weights of tower and projection, which no class of transformers has, by shape."""
    tower, _ = tower_of(given)
    wide, inner, hidden = (
        tower["hidden_size"],
        tower["intermediate_size"],
        Sizes(given, TEXT)("hidden_size"),
    )
    positions, joined = (tower["image_size"] // PATCH) ** 2 + 1, MERGED**2 * wide
    found: dict[str, tuple[int, ...]] = {
        f"{TOWER}.embeddings.class_embedding": (wide,),
        f"{TOWER}.embeddings.patch_embedding.weight": (wide, 3, PATCH, PATCH),
        f"{TOWER}.embeddings.position_embedding.weight": (positions, wide),
        f"{PROJECTION}.0.weight": (hidden, joined),
        f"{PROJECTION}.0.bias": (hidden,),
        f"{PROJECTION}.2.weight": (hidden, hidden),
        f"{PROJECTION}.2.bias": (hidden,),
        LINE_END: (1, 1, 1, joined),
        SEPARATOR: (1, 1, joined),
    }
    norms = ["pre_layrnorm", "post_layernorm"]
    for number in range(tower["num_hidden_layers"]):
        layer = f"encoder.layers.{number}"
        norms += [f"{layer}.layer_norm1", f"{layer}.layer_norm2"]
        matrices = {f"self_attn.{one}_proj": (wide, wide) for one in ("q", "k", "v", "out")}
        matrices |= {"mlp.fc1": (inner, wide), "mlp.fc2": (wide, inner)}
        for name, shape in matrices.items():
            found[f"{TOWER}.{layer}.{name}.weight"] = shape
            found[f"{TOWER}.{layer}.{name}.bias"] = shape[:1]
    found |= {f"{TOWER}.{norm}.{kind}": (wide,) for norm in norms for kind in ("weight", "bias")}
    return found


PHI3_V = OtherLayout(
    model_type="phi3_v",
    config=config,
    image_token=None,
    processor=processor,
    chat=chat,
    end_token="<|end|>",  # noqa: S106 (a token of a vocabulary)
    names=(),
    joined=(),
    beside=(r"^model\.vision_embed_tokens\.",),
    shapes_beside=shapes_beside,
)
