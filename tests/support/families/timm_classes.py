"""Checkpoints of classes whose towers are timm's, as `own_classes` writes them."""

from collections.abc import Callable
from pathlib import Path

from support.families.checkpoints import TEXT, save
from support.families.torchvision_classes import template
from support.families.words import SIZE, tokenizer, vocabulary

LAST = (
    *("<image_soft_token>", "<start_of_image>", "<end_of_image>", "<vision_0>"),
    *("<audio_soft_token>", "<start_of_audio>", "<end_of_audio>", "<audio_0>"),
)
"""Tokens of images and of audio: each kind has a table of its own behind the text's."""


def gemma3n(folder: Path) -> None:
    """Gemma 3n: several streams of a layer, embeddings for each layer, keys that layers share."""
    import transformers as t  # noqa: PLC0415 (seconds)

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


WRITERS: dict[str, Callable[[Path], None]] = {"gemma3n": gemma3n}
"""model_type -> what writes a checkpoint of it."""
