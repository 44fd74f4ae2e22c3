"""Weights of a checkpoint, judged by file names, sizes and headers: no tensor is read."""

import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mm_api.checkpoint.quantized import HF_QUANT_CONFIG, Counted, check_floats, counted
from mm_api.checkpoint.weight_files import INDEX, SINGLE, is_weights, weight_files
from mm_api.documents.model_facts import InspectReason
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.small_files import listing, read_object

HEADER_LIMIT_BYTES = 100_000_000
"""Largest header the safetensors format allows."""

DTYPES = {
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}
"""safetensors' name of a dtype -> (torch's name, bytes of an element)."""

R = InspectReason

SHOWN = 3
"""File names in a message: the rest is on the same disk."""

ITEM_BYTES = dict(DTYPES.values())


@dataclass(frozen=True, slots=True)
class Weights:
    """What the weight files of a checkpoint hold."""

    format: Literal["safetensors", "pickle"]
    files: tuple[str, ...]
    bytes: int
    parameters: int
    dtype: str
    quantized: Counted | None = None
    """None: not quantized by Model-Optimizer."""


def read(source: Path, *, allow_pickle: bool, config_dtype: str | None) -> Weights:
    """Return the weights of a checkpoint; safetensors win over pickles.

    `allow_pickle`: Accept a checkpoint that only has pickles. `config_dtype`: `dtype` of
    config.json: a pickle's dtype is not looked up in the pickle.

    Raises:
        InspectRefusedError: `WeightsMissing`, `WeightsInvalid` or `PickleRefused`.
    """
    names = {path.name for path in source.iterdir() if path.is_file()}
    index, files = weight_files(names, lambda name: read_object(source / name, R.WEIGHTS_INVALID))
    if index is not None:
        _check_index(source, index, files)
    if not files:
        others = [name for name in sorted(names) if is_weights(name)]
        raise InspectRefusedError(
            R.WEIGHTS_MISSING,
            f"No weights: neither {SINGLE} nor {INDEX} exists. {source} holds: {listing(source)}."
            + (f" {_few(others)} is read by no loader of transformers." if others else ""),
        )
    if all(name.endswith(".safetensors") for name in files):
        headers = {name: read_header(source / name) for name in files}
        if index is not None:
            weight_map = read_object(source / index, R.WEIGHTS_INVALID)["weight_map"]
            _check_shards(index, weight_map, headers)
        return _summary(source, headers)
    if not allow_pickle:
        raise InspectRefusedError(
            R.PICKLE_REFUSED,
            f"The weights are pickles ({_few(files)}), which can run code when they"
            " are loaded. Convert them to safetensors, or set spec.model.allowPickle: true if you"
            " trust where they come from.",
        )
    total = sum((source / name).stat().st_size for name in files)
    dtype = config_dtype or "float32"
    return Weights("pickle", files, total, max(1, total // ITEM_BYTES.get(dtype, 4)), dtype)


def read_parts(
    source: Path, folders: tuple[str, ...], *, allow_pickle: bool, config_dtype: str | None
) -> Weights:
    """Return the weights of a checkpoint whose parts lie in folders of their own (VILA)."""
    parts = {
        name: read(source / name, allow_pickle=allow_pickle, config_dtype=config_dtype)
        for name in folders
    }
    largest = max(parts.values(), key=lambda part: part.bytes)
    for name, part in parts.items():
        if part.quantized is not None:
            raise InspectRefusedError(
                R.CONFIG_INVALID,
                f"{name}/{HF_QUANT_CONFIG} says that this part is quantized, and parts in folders"
                " of their own are served as they are trained. Use one that is not quantized.",
            )
    pickled = any(part.format == "pickle" for part in parts.values())
    return Weights(
        format="pickle" if pickled else "safetensors",
        files=tuple(f"{name}/{file}" for name, part in parts.items() for file in part.files),
        bytes=sum(part.bytes for part in parts.values()),
        parameters=sum(part.parameters for part in parts.values()),
        dtype=largest.dtype,
    )


def read_header(path: Path) -> dict[str, Any]:
    """Return a safetensors header: tensor name -> {dtype, shape, data_offsets}.

    Raises:
        InspectRefusedError: `WeightsInvalid`: too short, truncated, or no safetensors file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:  # noqa: PLR2004 (the format's length field)
            raise _invalid(f"{path.name} has {size} bytes; a safetensors file has at least 8")
        (length,) = struct.unpack("<Q", prefix)
        if length > HEADER_LIMIT_BYTES:
            raise _invalid(
                f"{path.name} is not a safetensors file: its header would have {length} bytes"
            )
        if length + 8 > size:
            raise _invalid(
                f"{path.name} is truncated: {size} bytes, its header alone has {length + 8}"
            )
        try:
            header = json.loads(file.read(length), object_pairs_hook=_once)
            texts = header.pop("__metadata__", {}).values()
            spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
            begins, ends = [one for one, _ in spans], [0, *(one for _, one in spans)]
            expected = 8 + length + ends[-1]
        except (
            ValueError,
            TypeError,
            AttributeError,
            KeyError,
            IndexError,
            RecursionError,
        ) as error:
            raise _invalid(
                f"{path.name} is not a safetensors file: its header cannot be read"
            ) from error
    if expected != size:
        raise _invalid(
            f"{path.name} is truncated or damaged: {size} bytes, and its header describes"
            f" {expected}"
        )
    typed = {type(one) for one in (*begins, *ends)} <= {int} and {type(one) for one in texts} <= {
        str
    }
    if begins != ends[:-1] or not typed:
        raise _invalid(
            f"{path.name} is damaged: its tensors overlap, or leave bytes between them, or its"
            " header has values of other types"
        )
    return dict(header)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError
    return found


def read_headers(source: Path, files: Iterable[str]) -> dict[str, Any]:
    """Return the tensors of several files; those in a folder have its name in front."""
    return {
        f"{folder}{slash}{name}": entry
        for folder, slash, _, file in ((*one.rpartition("/"), one) for one in files)
        for name, entry in read_header(source / file).items()
    }


def _check_index(source: Path, index: str, files: tuple[str, ...]) -> None:
    """Refuse an index whose files are not all there."""
    if not files:
        raise _invalid(f"{index} has no weight_map")
    if not isinstance(read_object(source / index, R.WEIGHTS_INVALID).get("metadata"), dict):
        raise _invalid(f"{index} has no metadata, an object that transformers reads with it")
    foreign = [name for name in files if Path(name).name != name]
    if foreign:
        raise _invalid(f"{index} names {foreign[0]!r}, which is not a file beside it")
    missing = [name for name in files if not (source / name).is_file()]
    if missing:
        raise InspectRefusedError(
            R.WEIGHTS_MISSING,
            f"{index} names {len(files)} files, of which {len(missing)} are missing:"
            f" {_few(missing)}. Download them again.",
        )


def _check_shards(
    index: str, weight_map: Mapping[str, object], headers: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse shards that hold other tensors than their index says: they are of two checkpoints."""
    for tensor, shard in weight_map.items():
        if tensor not in headers[str(shard)]:
            raise _invalid(f"{index} says that {tensor} is in {shard}, and it is not")
    for shard, header in headers.items():
        stale = sorted(tensor for tensor in header if weight_map.get(tensor) != shard)
        if stale:
            stated = weight_map.get(stale[0])
            where = "in no file" if stated is None else f"in {stated}"
            raise _invalid(
                f"{shard} holds {_few(stale)}, which {index} says to be {where}: the shard is of"
                " another checkpoint"
            )


def _summary(source: Path, headers: Mapping[str, dict[str, Any]]) -> Weights:
    entries = {name: entry for header in headers.values() for name, entry in header.items()}
    exported = (source / HF_QUANT_CONFIG).is_file()
    elements: Counter[str] = Counter()
    for name, header in headers.items():
        for tensor, entry in header.items():
            elements[str(entry.get("dtype"))] += _elements(f"{name}: tensor {tensor}", entry)
    if not exported:
        check_floats(entries)
    if not elements.total():
        raise _invalid(f"{', '.join(headers)}: no tensor in it")
    found = Weights(
        format="safetensors",
        files=tuple(headers),
        bytes=sum((source / name).stat().st_size for name in headers),
        parameters=elements.total(),
        dtype=DTYPES[elements.most_common(1)[0][0]][0],
    )
    if not exported:
        return found
    numbers = counted(entries)
    dtype = DTYPES[numbers.dtype][0]
    return replace(found, parameters=numbers.parameters, dtype=dtype, quantized=numbers)


def _elements(where: str, entry: Mapping[str, Any]) -> int:
    """Return how many elements a tensor of a header has; its dtype, shape and bytes must agree."""
    kind, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(kind, str) or kind not in DTYPES:
        raise _invalid(f"{where} has the unknown dtype {kind!r}; known: {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise _invalid(f"{where} has the shape {shape!r}; expected a list of whole numbers")
    begin, end = entry["data_offsets"]
    count = math.prod(shape)
    if count * DTYPES[kind][1] != end - begin:
        raise _invalid(f"{where}: {shape} of {kind} does not fill its {end - begin} bytes")
    return count


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if names[SHOWN:] else "")


def _invalid(what: str) -> InspectRefusedError:
    return InspectRefusedError(R.WEIGHTS_INVALID, f"{what}. Download the file again.")
