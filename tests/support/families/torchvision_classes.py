"""Checkpoints of classes whose processors are torchvision's, as `own_classes` writes them."""

from collections.abc import Callable
from pathlib import Path

from support.families.checkpoints import HEADS, HIDDEN, LAYERS, PATCH, SIDE, TEXT, save, t
from support.families.words import SIZE, id_of, tokenizer, vocabulary

TOWER = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "image_size": SIDE,
    "patch_size": PATCH,
}
UNSIZED = {name: value for name, value in TOWER.items() if name != "image_size"}
SQUARE = {"height": SIDE, "width": SIDE}
BLOCKS = {
    "depth": LAYERS,
    "hidden_size": HIDDEN,
    "num_heads": HEADS,
    "intermediate_size": 48,
    "out_hidden_size": HIDDEN,
    "patch_size": PATCH,
}
"""Towers of patches in time."""

MERGED = {"patch_size": PATCH, "temporal_patch_size": 2, "merge_size": 2}
ROTATED = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
PIXELS = {"shortest_edge": 4 * SIDE * SIDE, "longest_edge": 16 * SIDE * SIDE}


def template(image: str) -> str:
    return (
        "{{ bos_token }}{% for message in messages %}{{ message['role'] }} : "
        "{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}" + image + "{% else %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endfor %} assistant :"
    )


def llama4(folder: Path) -> None:
    """Llama 4: experts, layers without positions, tiles between tokens."""
    tokens = (
        *("<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>"),
        *("<|tile_x_separator|>", "<|tile_y_separator|>"),
    )
    text = TEXT | {
        "head_dim": 16,
        "intermediate_size_mlp": 64,
        "num_local_experts": 4,
        "interleave_moe_layer_step": 2,
        "no_rope_layer_interval": 2,
        "attention_chunk_size": 64,
    }
    config = t.Llama4Config(
        vision_config=TOWER
        | {
            "intermediate_size": 128,
            "vision_output_dim": HIDDEN,
            "projector_input_dim": HIDDEN,
            "projector_output_dim": HIDDEN,
        },
        text_config=text,
        boi_token_index=id_of("<|image_start|>", tokens),
        eoi_token_index=id_of("<|image_end|>", tokens),
        image_token_index=id_of("<|patch|>", tokens),
    )
    save(t.Llama4ForConditionalGeneration(config), folder)
    t.Llama4Processor(
        t.Llama4ImageProcessor(size=SQUARE, max_patches=4),
        tokenizer(tokens),
        patch_size=PATCH,
        chat_template=template("<|image|>"),
    ).save_pretrained(folder)


def lfm2_vl(folder: Path) -> None:
    """LFM2-VL: a layer of short convolutions and one of attention."""
    tokens = ("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")
    config = t.Lfm2VlConfig(
        vision_config=TOWER | {"model_type": "siglip2_vision_model", "num_patches": 16},
        text_config=TEXT
        | {
            "model_type": "lfm2",
            "layer_types": ["conv", "full_attention"],
            "block_auto_adjust_ff_dim": False,
        },
        image_token_id=id_of("<image>", tokens),
        projector_hidden_size=48,
        downsample_factor=2,
    )
    save(t.Lfm2VlForConditionalGeneration(config), folder)
    images = t.Lfm2VlImageProcessor(
        encoder_patch_size=PATCH,
        downsample_factor=2,
        do_image_splitting=False,
        min_image_tokens=1,
        max_image_tokens=8,
    )
    t.Lfm2VlProcessor(images, tokenizer(tokens), chat_template=template("<image>")).save_pretrained(
        folder
    )


LAST = (
    *("<image_soft_token>", "<start_of_image>", "<end_of_image>", "<vision_0>"),
    *("<audio_soft_token>", "<start_of_audio>", "<end_of_audio>", "<audio_0>"),
)
"""Tokens of images and of audio: each kind has a table of its own behind the text's."""


def gemma3n(folder: Path) -> None:
    """Gemma 3n: several streams of a layer, embeddings for each layer, keys that layers share."""
    ids = {word: vocabulary((), LAST).index(word) for word in LAST}
    features, side, layers = 4, 64, 3
    config = t.Gemma3nConfig(
        vision_config={
            "architecture": "test_resnet",
            "hidden_size": 96,
            "vocab_size": 4,
            "vocab_offset": SIZE,
        },
        audio_config={
            "vocab_size": 4,
            "vocab_offset": SIZE + 4,
            "hidden_size": 16,
            "conf_num_attention_heads": 2,
            "conf_num_hidden_layers": 1,
            "sscp_conv_channel_size": [4, 4],
            "input_feat_size": 16,
        },
        text_config=TEXT
        | {
            "vocab_size": SIZE + len(LAST),
            "vocab_size_per_layer_input": SIZE,
            "head_dim": 16,
            "num_hidden_layers": layers,
            "intermediate_size": [64] * layers,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "num_kv_shared_layers": 1,
            "activation_sparsity_pattern": [0.5, 0.0, 0.0],
            "hidden_size_per_layer_input": 8,
            "laurel_rank": 8,
            "altup_num_inputs": 2,
            "sliding_window": 64,
        },
        vision_soft_tokens_per_image=features,
        audio_soft_tokens_per_image=features,
        image_token_id=ids["<image_soft_token>"],
        boi_token_id=ids["<start_of_image>"],
        eoi_token_id=ids["<end_of_image>"],
        audio_token_id=ids["<audio_soft_token>"],
        boa_token_id=ids["<start_of_audio>"],
        eoa_token_id=ids["<end_of_audio>"],
        tie_word_embeddings=False,
    )
    save(t.Gemma3nForConditionalGeneration(config), folder)
    named = {
        "image_token": "<image_soft_token>",
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "audio_token": "<audio_soft_token>",
        "boa_token": "<start_of_audio>",
        "eoa_token": "<end_of_audio>",
    }
    t.Gemma3nProcessor(
        t.Gemma3nAudioFeatureExtractor(feature_size=16),
        t.SiglipImageProcessor(size={"height": side, "width": side}),
        tokenizer((), LAST, named=named),
        audio_seq_length=features,
        image_seq_length=features,
        chat_template=template("<image_soft_token>"),
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (llama4, lfm2_vl, gemma3n)
}
"""model_type -> what writes a checkpoint of it."""
