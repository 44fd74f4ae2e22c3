"""SentencePiece models, trained here, as checkpoints of each family hold them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TRAINED_WITH: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "mbart": {"model_type": "unigram", "unk_id": 0, "bos_id": 1, "eos_id": 2},
    "llama": {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
}
"""What distinguishes published models: numbers of special tokens, algorithm, normalization."""

SIZE = 700


def train(kind: str, texts: Sequence[str], path: Path) -> Path:
    from sentencepiece import SentencePieceTrainer  # noqa: PLC0415 (few tests need it)

    with path.open("wb") as writer:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=writer,
            vocab_size=SIZE,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
            **TRAINED_WITH[kind],
        )
    return path


def write_config(folder: Path, **values: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
