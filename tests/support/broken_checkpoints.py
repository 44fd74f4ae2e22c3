"""Copies of a real checkpoint with one thing wrong; tensors are edited without torch."""

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

Tensors = dict[str, tuple[dict[str, Any], bytes]]
"""Name -> dtype and shape, and the bytes."""


def copied(example: str, folder: Path) -> Path:
    return Path(
        shutil.copytree(Path("examples") / example / "checkpoint", folder, dirs_exist_ok=True)
    )


def read_tensors(path: Path) -> Tensors:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (
            {"dtype": entry["dtype"], "shape": entry["shape"]},
            content[8 + length :][slice(*entry["data_offsets"])],
        )
        for name, entry in header.items()
    }


def write_tensors(path: Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (entry, content) in tensors.items():
        header[name] = {**entry, "data_offsets": [end, end + len(content)]}
        end += len(content)
    text = json.dumps(header).encode()
    parts = (struct.pack("<Q", len(text)), text, *(content for _, content in tensors.values()))
    path.write_bytes(b"".join(parts))


def edit_json(path: Path, **changes: Any) -> None:
    value = json.loads(path.read_text())
    for key, change in changes.items():
        both = isinstance(change, Mapping) and isinstance(value.get(key), dict)
        value[key] = {**value[key], **change} if both else change
    path.write_text(json.dumps(value))


def shard(folder: Path) -> tuple[Path, Path]:
    """Replace the single weight file by two shards and their index; return the shards."""
    tensors = list(read_tensors(folder / SINGLE).items())
    (folder / SINGLE).unlink()
    half = len(tensors) // 2
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    parts = (dict(tensors[:half]), dict(tensors[half:]))
    for name, part in zip(names, parts, strict=True):
        write_tensors(folder / name, part)
    weight_map = {one: name for name, part in zip(names, parts, strict=True) for one in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder / names[0], folder / names[1]
