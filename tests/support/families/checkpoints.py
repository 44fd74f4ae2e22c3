"""What random checkpoints of all families share: sizes, weights, the processor's file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.families.words import BEGIN, END, PAD, SIZE

HIDDEN = 32
HEADS = 2
LAYERS = 2
SIDE = 28
PATCH = 14
SHARED: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
}
TEXT: dict[str, Any] = SHARED | {
    "num_key_value_heads": 1,
    "vocab_size": SIZE,
    "max_position_embeddings": 512,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": PAD,
}


class _Transformers:
    def __getattr__(self, name: str) -> Any:
        import transformers  # noqa: PLC0415

        return getattr(transformers, name)


t: Any = _Transformers()


def head_size() -> int:
    return HIDDEN // int(TEXT["num_attention_heads"])


@contextmanager
def one_head() -> Iterator[None]:
    """Give language models one head of 32 numbers: vLLM's kernels for CPUs have none of 16."""
    TEXT["num_attention_heads"] = 1
    try:
        yield
    finally:
        TEXT["num_attention_heads"] = HEADS


MEAN, STD = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]


def save(model: Any, folder: Path, *, embeddings: float = 1.0) -> None:
    """Make weights that matter: what starts as zero or one would hide a mistake.

    Embeddings of tokens are multiplied. Where the model enlarges them and they are the weights of
    its logits, too, each token would be followed by itself, whatever is before it.
    """
    import torch  # noqa: PLC0415

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1 or "gate" in name or "token" in name:
                weight.add_(torch.randn_like(weight) * 0.2)
            elif weight.ndim > 1:
                weight.copy_(torch.randn_like(weight) * 0.15)
            if "embed_tokens" in name:
                weight.mul_(embeddings)
    model.generation_config.eos_token_id = END
    model.generation_config.pad_token_id = PAD
    model.generation_config.bos_token_id = BEGIN
    model.save_pretrained(folder)


def write_processor(folder: Path, **config: Any) -> None:
    values = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    values |= {"rescale_factor": 1 / 255, "image_mean": MEAN, "image_std": STD, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(values | config, indent=1))
