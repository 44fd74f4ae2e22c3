"""Files of checkpoints and engines: read as far as headers, written as noise that is always equal.

Names of ranks and the layout of safetensors are the real ones.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from arguments import refuse

ENGINE_BYTES = 64 * 1024


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        refuse(f"{path}: {error}")
    if not isinstance(value, dict):
        refuse(f"{path} holds no JSON object")
    return value


def read_header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return dict(json.loads(file.read(length)))


def check_weights(folder: Path) -> None:
    """Refuse a checkpoint without weights, or with an index that names files that are not there."""
    index = folder / "model.safetensors.index.json"
    names = {path.name for path in folder.glob("*.safetensors")}
    if index.is_file():
        names = set(read_json(index)["weight_map"].values())
    if not names:
        refuse(f"no file named model.safetensors found in directory {folder}")
    for name in sorted(names):
        read_header(folder / name)


def write_rank_weights(folder: Path, ranks: int, seed: str) -> None:
    for rank in range(ranks):
        noise = _noise(f"{seed}{rank}", 1024)
        entry = {"dtype": "U8", "shape": [len(noise)], "data_offsets": [0, len(noise)]}
        header = json.dumps({"transformer.vocab_embedding.weight": entry}).encode()
        path = folder / f"rank{rank}.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + noise)


def write_engine(path: Path, seed: str) -> None:
    path.write_bytes(_noise(seed, ENGINE_BYTES))


def _noise(seed: str, count: int) -> bytes:
    return hashlib.shake_256(seed.encode()).digest(count)
