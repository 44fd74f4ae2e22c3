"""A checkpoint with large weights, served by the Hub's protocol and by S3."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broken_checkpoints import SINGLE, copied, edit_json, read_tensors, write_tensors
from support.hollow_checkpoint import write_checkpoint
from support.hub_server import Hub, serving_hub

LAYERS = 14
"""A file of 12 MiB, above what is read complete."""

FINITE = bytes(one & 0xBF for one in range(256))
"""Byte -> the same without a bit, which one of a number's exponent is: no number is NaN."""


@pytest.fixture(scope="session")
def large_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose weights are sampled, not read; of random bytes, so that none repeat."""
    directory = copied("tiny-llava", tmp_path_factory.mktemp("large") / "checkpoint")
    edit_json(directory / "config.json", text_config={"num_hidden_layers": LAYERS})
    tensors, first = read_tensors(directory / SINGLE), "language_model.model.layers.0."
    for layer in range(1, LAYERS):
        of_layer = {k: one for k, one in tensors.items() if k.startswith(first)}
        tensors |= {k.replace(".0.", f".{layer}."): one for k, one in of_layer.items()}
    numbers = random.Random(0)  # noqa: S311 (no secret)
    for name, (entry, content) in tensors.items():
        tensors[name] = entry, numbers.randbytes(len(content)).translate(FINITE)
    write_tensors(directory / SINGLE, tensors)
    (directory / "README.md").write_text("not part of the checkpoint")
    return directory


@pytest.fixture
def hub(large_checkpoint: Path) -> Iterator[Hub]:
    with serving_hub(large_checkpoint) as server:
        yield server


@pytest.fixture
def small_hub(tmp_path: Path) -> Iterator[Hub]:
    with serving_hub(write_checkpoint(tmp_path / "on-the-hub")) as server:
        yield server
