"""The source digest changes with what a build would use, and with nothing else."""

import json
import os
from pathlib import Path

import pytest

from mm_runtime.sources.identity import (
    BLOCK_BYTES,
    SMALL_BYTES,
    files_digest,
    source_digest,
    source_files,
)
from support.cases import cases
from support.hollow_checkpoint import write_checkpoint, write_safetensors

BIG = SMALL_BYTES // 2 + BLOCK_BYTES
"""float16 elements of a file that is above the limit for reading it complete."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    source = write_checkpoint(tmp_path / "checkpoint")
    (source / "model.safetensors").rename(source / "small.safetensors")
    write_safetensors(source / "big.safetensors", {"w": ("F16", (BIG,))})
    index = {"weight_map": {"a": "small.safetensors", "w": "big.safetensors"}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    return source


PUBLISHED = ("config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")


@cases(
    "weights digest",
    {
        "one-file": (
            {"model.safetensors": "weights"},
            "7da0839ecfcbb07acafc09731a859cb66ff0e2b933d40ef35fc86026cf99271f",
        ),
        "shards": (
            {
                "model.safetensors.index.json": '{"weight_map": {"a": "model-1.safetensors"}}',
                "model-1.safetensors": "weights",
            },
            "65474676d9c3c04524b83fc5d2a2629656ea5b699578b9877f33e413bc64e4f8",
        ),
        "pickle": (
            {"pytorch_model.bin": "weights"},
            "3d5a06b82d58a6ed9637eceba53fff8c952b5851b5ecd7825c28458d57a3cf01",
        ),
    },
)
def test_checkpoints_keep_their_digest(
    tmp_path: Path, weights: dict[str, str], digest: str
) -> None:
    """A digest of the same files that changes builds every engine again at an upgrade."""
    for name, content in {**dict.fromkeys(PUBLISHED, "{}"), **weights}.items():
        (tmp_path / name).write_text(content)

    assert source_digest(tmp_path) == f"sha256:{digest}"


@pytest.mark.parametrize(
    "name", ["README.md", ".gitattributes", "image.png"], ids=["readme", "hidden", "image"]
)
def test_unused_files_do_not_count(checkpoint: Path, name: str) -> None:
    before = source_digest(checkpoint)
    (checkpoint / name).write_text("new")
    assert before == source_digest(checkpoint)


def test_one_byte_of_a_small_file_counts(checkpoint: Path) -> None:
    before = source_digest(checkpoint)
    with (checkpoint / "small.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    assert before != source_digest(checkpoint)


@cases("offset whence", {"first-block": (100, os.SEEK_SET), "last-block": (-1, os.SEEK_END)})
def test_sampled_bytes_of_a_big_file_count(checkpoint: Path, offset: int, whence: int) -> None:
    before = source_digest(checkpoint)
    with (checkpoint / "big.safetensors").open("r+b") as file:
        file.seek(offset, whence)
        file.write(b"\x01")
    assert before != source_digest(checkpoint)


def test_names_and_sizes_count(checkpoint: Path) -> None:
    before = source_digest(checkpoint)
    (checkpoint / "tokenizer.json").rename(checkpoint / "vocab.json")
    assert before != source_digest(checkpoint)


def test_place_does_not_count(checkpoint: Path, tmp_path: Path) -> None:
    moved = {}
    for number, path in enumerate(sorted(checkpoint.iterdir())):
        moved[path.name] = tmp_path / str(number)
        moved[path.name].write_bytes(path.read_bytes())
    # The suffix of a copy must not matter either: it decides how a file is sampled.
    named = {
        name: path.rename(path.with_name(f"{path.name}-{name}")) for name, path in moved.items()
    }
    assert source_digest(checkpoint) == files_digest(named)


def test_parts_of_vila_count(checkpoint: Path) -> None:
    """VILA's weights lie in folders: a byte of one of them makes another checkpoint."""
    before = source_digest(checkpoint)
    part = checkpoint / "llm"
    part.mkdir()
    (part / "config.json").write_text("{}")
    with_part = source_digest(checkpoint)
    (part / "config.json").write_text("[]")

    assert before != with_part != source_digest(checkpoint)


def test_other_folders_do_not_count(checkpoint: Path) -> None:
    """The same weights in another format, beside the checkpoint, change nothing."""
    before = source_digest(checkpoint)
    (checkpoint / "original").mkdir()
    (checkpoint / "original" / "params.json").write_text("{}")

    assert before == source_digest(checkpoint)


@cases(
    "name",
    {
        "original-layout": "consolidated.safetensors",
        "variant": "model.fp32-00001-of-00002.safetensors",
        "index-of-a-variant": "model.safetensors.index.fp32.json",
        "pickle": "pytorch_model.bin",
        "index-of-pickles": "pytorch_model.bin.index.json",
        "of-a-part": "llm/pytorch_model.bin",
    },
)
def test_other_copies_of_the_weights_do_not_count(checkpoint: Path, name: str) -> None:
    """They are not fetched, and no reader of all files of a folder finds tensors twice."""
    (checkpoint / "llm").mkdir()
    write_safetensors(checkpoint / "llm" / "model.safetensors", {"w": ("F16", (1,))})
    before = source_digest(checkpoint)
    (checkpoint / name).write_bytes(b"a second copy")

    assert source_digest(checkpoint) == before
    assert name not in source_files(checkpoint)


def test_names_of_parts_have_their_folder(checkpoint: Path) -> None:
    """Files of one name in two parts stay two files, wherever a build copies them."""
    for part in ("llm", "vision_tower"):
        (checkpoint / part).mkdir()
        (checkpoint / part / "config.json").write_text(part)

    assert {"config.json", "llm/config.json", "vision_tower/config.json"} <= set(
        source_files(checkpoint)
    )
