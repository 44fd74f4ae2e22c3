"""Whether every number of safetensors files is finite; needs no torch.

A number is none where all bits of its exponent are set, so the bytes of a file are compared with a
mask, a piece at a time: no tensor has to fit into memory.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mm_runtime.errors import WeightsUnusableError

_MASKS: dict[str, tuple[type[np.unsignedinteger[Any]], int]] = {
    "F64": (np.uint64, 0x7FF0_0000_0000_0000),
    "F32": (np.uint32, 0x7F80_0000),
    "F16": (np.uint16, 0x7C00),
    "BF16": (np.uint16, 0x7F80),
    "F8_E5M2": (np.uint8, 0x7C),
    "F8_E4M3": (np.uint8, 0x7F),
}
"""safetensors' name of a dtype -> a type of its size, and bits that are all set in what is no
finite number. E4M3 has no infinity: one pattern is NaN (Micikevicius et al., "FP8 formats for deep
learning", 2022)."""

_PIECE_BYTES = 4 << 20
_FILES_AT_ONCE = 4
_NAMED = 3


def refuse_not_finite(files: Iterable[Path], owner: str = "checkpoint") -> None:
    """Look at every number of safetensors files whose headers are valid; others are passed over.

    Raises:
        WeightsUnusableError: tensors have NaN or infinity; it names the first.
    """
    weights = sorted(path for path in files if path.suffix == ".safetensors")
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        found = [
            f"{name} in {path.name}"
            for path, names in zip(weights, pool.map(_not_finite, weights), strict=True)
            for name in names
        ]
    if found:
        more = ", ..." if found[_NAMED:] else ""
        raise WeightsUnusableError(
            f"The {owner} has NaN or infinity in {len(found)} of its weights"
            f" ({', '.join(found[:_NAMED])}{more}); expected finite numbers. Correct it:"
            " copy all of its files again, or save one whose training did not diverge."
        )


def _not_finite(path: Path) -> list[str]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        return [name for name, one in header.items() if _has_any(file, 8 + length, one)]


def _has_any(file: BinaryIO, first: int, entry: dict[str, Any]) -> bool:
    if entry["dtype"] not in _MASKS:
        return False
    kind, mask = _MASKS[entry["dtype"]]
    begin, end = entry["data_offsets"]
    file.seek(first + begin)
    return any(
        bool(((piece & kind(mask)) == kind(mask)).any())
        for piece in _pieces(file, end - begin, kind)
    )


def _pieces(
    file: BinaryIO, count: int, kind: type[np.unsignedinteger[Any]]
) -> Iterator[NDArray[Any]]:
    while count > 0:
        read = file.read(min(count, _PIECE_BYTES))
        count -= len(read) or count  # a header that promises more is refused elsewhere
        yield np.frombuffer(read[: len(read) // kind().itemsize * kind().itemsize], dtype=kind)
