"""Checkpoints of classes that read recordings: small, random, each with its own processor."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.audio import encode_wav
from support.families.checkpoints import HEADS, HIDDEN, PATCH, SIDE, TEXT, save, t
from support.families.torchvision_classes import BLOCKS, ROTATED
from support.families.words import id_of, tokenizer

RATE = 16_000
TOWER = {
    "num_mel_bins": 16,
    "encoder_layers": 1,
    "encoder_attention_heads": HEADS,
    "encoder_ffn_dim": 48,
    "d_model": HIDDEN,
    "max_source_positions": 1500,
}
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_bos|><|IMAGE|><|vision_eos|>"
    "{% elif part['type'] == 'audio' %}<|audio_bos|><|AUDIO|><|audio_eos|>"
    "{% elif part['type'] == 'video' %}<|vision_bos|><|VIDEO|><|vision_eos|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"
)


def noise(seconds: float, *, seed: int) -> NDArray[np.float32]:
    """Return a recording that sixteen bits hold: a WAV file of it is the same."""
    steps = np.random.default_rng(seed).integers(-9000, 9000, int(seconds * RATE))
    return (steps / 2**15).astype(np.float32)


def recording_part(samples: NDArray[np.float32], kind: str = "wav") -> dict[str, Any]:
    encoded = base64.b64encode(encode_wav(samples)).decode()
    return {"type": "input_audio", "input_audio": {"data": encoded, "format": kind}}


def qwen2_audio(folder: Path) -> None:
    """Qwen2-Audio: Whisper's encoder, features pooled by two; no template of its own."""
    tokens = ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|im_start|>", "<|im_end|>")
    config = t.Qwen2AudioConfig(
        audio_config=TOWER,
        text_config=TEXT | {"model_type": "qwen2"},
        audio_token_index=id_of("<|AUDIO|>", tokens),
    )
    save(t.Qwen2AudioForConditionalGeneration(config), folder)
    t.Qwen2AudioProcessor(
        t.WhisperFeatureExtractor(feature_size=16), tokenizer(tokens)
    ).save_pretrained(folder)


def qwen2_5_omni(folder: Path) -> None:
    """Qwen2.5-Omni without its talker: towers of images and recordings, M-RoPE."""
    marks = {
        f"{kind}_token": f"<|{name}|>"
        for kind, name in (
            *(("image", "IMAGE"), ("audio", "AUDIO"), ("video", "VIDEO")),
            *(("vision_bos", "vision_bos"), ("vision_eos", "vision_eos")),
            *(("audio_bos", "audio_bos"), ("audio_eos", "audio_eos")),
        )
    }
    tokens = (*marks.values(), "<|im_start|>", "<|im_end|>")
    ids = {name: id_of(mark, tokens) for name, mark in marks.items()}
    config = t.Qwen2_5OmniConfig(
        thinker_config={
            "text_config": TEXT
            | {
                "tie_word_embeddings": False,
                "rope_parameters": ROTATED | {"mrope_section": [8, 4, 4]},
            },
            "vision_config": BLOCKS | {"fullatt_block_indexes": [0], "window_size": 4 * PATCH},
            "audio_config": TOWER | {"output_dim": HIDDEN, "n_window": 100},
            "audio_token_index": ids["audio_token"],
            "image_token_index": ids["image_token"],
            "video_token_index": ids["video_token"],
            "audio_start_token_id": ids["audio_bos_token"],
            "audio_end_token_id": ids["audio_eos_token"],
            "vision_start_token_id": ids["vision_bos_token"],
            "vision_end_token_id": ids["vision_eos_token"],
        },
        enable_audio_output=False,
    )
    save(t.Qwen2_5OmniForConditionalGeneration(config), folder)
    words = tokenizer(tokens)
    words._set_model_specific_special_tokens(marks)
    t.Qwen2_5OmniProcessor(
        t.Qwen2VLImageProcessor(min_pixels=4 * SIDE * SIDE, max_pixels=16 * SIDE * SIDE),
        t.Qwen2VLVideoProcessor(),
        t.WhisperFeatureExtractor(feature_size=16),
        words,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {
    "qwen2-audio": qwen2_audio,
    "qwen2-5-omni": qwen2_5_omni,
}
"""Family -> what writes a checkpoint of it."""


def write(family: str, folder: Path) -> Path:
    import torch  # noqa: PLC0415 (seconds)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    WRITERS[family](folder)
    return folder
