"""A checkpoint with large weights, served by the Hub's protocol and by S3."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hollow_checkpoint import hollow_tensors, write_checkpoint, write_safetensors
from support.hub_server import Hub, serving_hub

ELEMENTS = 6 * 1024 * 1024
"""float16: a file of 12 MB, above what is read complete."""

FINITE = bytes(one & 0xBF for one in range(256))
"""Byte -> the same without a bit, which one of a number's exponent is: no number is NaN."""


@pytest.fixture(scope="session")
def large_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose weights are sampled, not read; of random bytes, so that none repeat."""
    directory = write_checkpoint(tmp_path_factory.mktemp("large") / "checkpoint")
    weights = directory / "model.safetensors"
    write_safetensors(weights, hollow_tensors() | {"a": ("F16", (ELEMENTS,))})
    with weights.open("r+b") as file:
        file.seek(-2 * ELEMENTS, os.SEEK_END)
        content = random.Random(0).randbytes(2 * ELEMENTS)  # noqa: S311 (no secret)
        file.write(content.translate(FINITE))
    (directory / "README.md").write_text("not part of the checkpoint")
    return directory


@pytest.fixture
def hub(large_checkpoint: Path) -> Iterator[Hub]:
    """A Hub with that checkpoint."""
    with serving_hub(large_checkpoint) as server:
        yield server


@pytest.fixture
def small_hub(tmp_path: Path) -> Iterator[Hub]:
    """A Hub with a checkpoint of its own, which a test may change."""
    with serving_hub(write_checkpoint(tmp_path / "on-the-hub")) as server:
        yield server
