"""Checkpoints of classes that read recordings: small, random, each with its own processor."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.families.checkpoints import HEADS, HIDDEN, TEXT, save
from support.families.words import id_of, tokenizer

RATE = 16_000


def noise(seconds: float, *, seed: int) -> NDArray[np.float32]:
    """Return a recording that sixteen bits hold: a WAV file of it is the same."""
    steps = np.random.default_rng(seed).integers(-9000, 9000, int(seconds * RATE))
    return (steps / 2**15).astype(np.float32)


def qwen2_audio(folder: Path) -> None:
    """Qwen2-Audio: Whisper's encoder, features pooled by two; no template of its own."""
    import transformers as t  # noqa: PLC0415 (seconds)

    tokens = ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|im_start|>", "<|im_end|>")
    config = t.Qwen2AudioConfig(
        audio_config={
            "num_mel_bins": 16,
            "encoder_layers": 1,
            "encoder_attention_heads": HEADS,
            "encoder_ffn_dim": 48,
            "d_model": HIDDEN,
            "max_source_positions": 1500,
        },
        text_config=TEXT | {"model_type": "qwen2"},
        audio_token_index=id_of("<|AUDIO|>", tokens),
    )
    save(t.Qwen2AudioForConditionalGeneration(config), folder)
    t.Qwen2AudioProcessor(
        t.WhisperFeatureExtractor(feature_size=16), tokenizer(tokens)
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {"qwen2-audio": qwen2_audio}
"""Family -> what writes a checkpoint of it."""


def write(family: str, folder: Path) -> Path:
    """Write a checkpoint of a family and return its folder."""
    import torch  # noqa: PLC0415 (seconds)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    WRITERS[family](folder)
    return folder
