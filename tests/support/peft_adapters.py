"""LoRA adapters that peft itself writes, and what transformers answers with one of them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model

STRENGTH = 1.2
"""Spread of the matrices: strong enough that every adapter changes the answers."""


def write_peft(model: Any, folder: Path, targets: list[str] | str, *, rank: int, seed: int) -> Path:
    """Save an adapter of random matrices for a model, which is as before afterwards."""
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=targets,
        use_rslora=bool(seed % 2),
        init_lora_weights=False,
    )
    with _older_names():
        adapted: Any = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in adapted.named_parameters():
        if "lora_" in name:
            values = torch.randn(tensor.shape, generator=generator)
            tensor.data.copy_(values * STRENGTH / tensor.shape[1] ** 0.5)
    adapted.save_pretrained(folder)
    adapted.unload()
    return folder


def merged(model: Any, folder: Path) -> Any:
    """Return a model with an adapter's matrices in its own; the model given is used up."""
    with _older_names():
        loaded: Any = PeftModel.from_pretrained(model, str(folder))
    return loaded.merge_and_unload().eval()


@contextmanager
def _older_names() -> Iterator[None]:
    """Let peft 0.21 request a property that transformers 5.23 calls by another name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        yield
