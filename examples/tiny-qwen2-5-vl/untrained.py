"""The untrained Qwen2.5-VL, its tokenizer, processor files and chat template.

Small on purpose: about 0.3 million weights, and still every part of a large one: windows and full
attention in the tower, merged patches, rotations of three coordinates, times of videos.
"""

import json
from pathlib import Path

import scenes
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

PATCH, MERGE, TEMPORAL = 14, 2, 2
TOKENS_PER_SECOND = 2
PAD, UNKNOWN, START, END = "<|endoftext|>", "<unk>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"
SPECIAL = (PAD, UNKNOWN, START, END, VISION_START, VISION_END, IMAGE, VIDEO)

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of Qwen2-VL's processors."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Return the word-level tokenizer: lower case, punctuation apart, every known word."""
    texts = [*scenes.ABOUT_IMAGES, *scenes.ABOUT_VIDEOS, "user assistant system a then first"]
    normalizer, splitter = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    pieces = splitter.pre_tokenize_str(normalizer.normalize_str(" ".join(texts)))
    words = sorted({piece for piece, _ in pieces} | set(scenes.COLOURS) | set(scenes.SHAPES))
    found = Tokenizer(
        models.WordLevel({one: at for at, one in enumerate((*SPECIAL, *words))}, UNKNOWN)
    )
    found.normalizer, found.pre_tokenizer = normalizer, splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=found,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[START, END, VISION_START, VISION_END, IMAGE, VIDEO],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def model(words: PreTrainedTokenizerFast) -> Qwen2_5_VLForConditionalGeneration:
    """Return the model with random weights, in float32."""
    ids = words.get_vocab()
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "num_heads": 4,
        "intermediate_size": 128,
        "out_hidden_size": 64,
        "patch_size": PATCH,
        "window_size": 2 * PATCH,
        "fullatt_block_indexes": [1],
        "tokens_per_second": TOKENS_PER_SECOND,
    }
    text = {
        "vocab_size": len(words),
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "mrope_section": [2, 3, 3],
        },
        "pad_token_id": ids[PAD],
        "bos_token_id": None,
        "eos_token_id": ids[END],
    }
    config = Qwen2_5_VLConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=ids[IMAGE],
        video_token_id=ids[VIDEO],
        vision_start_token_id=ids[VISION_START],
        vision_end_token_id=ids[VISION_END],
        tie_word_embeddings=False,
    )
    made = Qwen2_5_VLForConditionalGeneration(config)
    made.generation_config = GenerationConfig(eos_token_id=ids[END], pad_token_id=ids[PAD])
    return made


def write_processor(folder: Path) -> None:
    """Write preprocessor_config.json and the chat template."""
    side = scenes.SIDE
    config = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "image_mean": list(MEAN),
        "image_std": list(STD),
        # Squares become 56 x 56; the least is one token.
        "min_pixels": (PATCH * MERGE) ** 2,
        "max_pixels": side * side,
        "patch_size": PATCH,
        "temporal_patch_size": TEMPORAL,
        "merge_size": MERGE,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
