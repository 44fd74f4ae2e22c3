"""Checkpoints that Model-Optimizer quantized: what hf_quant_config.json says, what headers hold.

A matrix of NVFP4 has two numbers in a byte of `weight`, one FP8 number for 16 of a row in
`weight_scale`, and one FP32 number in `weight_scale_2`; one of FP8 has a byte a number and one FP32
number. Scales of activations and of the cache stand beside them (export of NVIDIA/Model-Optimizer,
modelopt/torch/export/quant_utils.py; tensorrt_llm/_torch/modules/linear.py).
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from mm_api.checkpoint.values import CheckpointError, JsonObject, invalid, section
from mm_api.documents.model_facts import InspectReason, StoredQuantization
from mm_api.documents.quantization import HF_QUANT_CONFIG

GROUP = 16
"""Numbers of a row that share a scale in NVFP4."""

_WEIGHT = ".weight"
_SCALE = ".weight_scale"
_GLOBAL_SCALE = ".weight_scale_2"
_SCALES = (_SCALE, _GLOBAL_SCALE, ".input_scale", ".k_scale", ".v_scale")
_PACKED = {"U8": "NVFP4", "F8_E4M3": "FP8"}
_MATRIX = 2
_READ = ("FP8", "NVFP4")


@dataclass(frozen=True, slots=True)
class Counted:
    """Weights of a quantized checkpoint, as numbers of the model and not of its files."""

    parameters: int
    """With two numbers for each byte of NVFP4, and without scales."""

    quantized: Mapping[str, int]
    """Module -> its numbers."""

    kinds: frozenset[str]
    dtype: str
    """Of safetensors: what most of the other weights are stored as."""


def counted(entries: Mapping[str, Mapping[str, Any]]) -> Counted:
    """Return what the headers of all files hold: name of a tensor -> dtype and shape.

    Raises:
        CheckpointError: a scale is missing, or has another shape than its matrix needs.
    """
    quantized: dict[str, int] = {}
    kinds, kept = set[str](), Counter[str]()
    for name, entry in entries.items():
        if name.endswith(_SCALES):
            continue
        module, shape = name.removesuffix(_WEIGHT), list(entry["shape"])
        kind = _PACKED.get(str(entry["dtype"]))
        if kind is None or not name.endswith(_WEIGHT) or len(shape) != _MATRIX:
            kept[str(entry["dtype"])] += math.prod(shape)
            continue
        _check_scales(module, kind, shape, entries)
        quantized[module] = math.prod(shape) * (2 if kind == "NVFP4" else 1)
        kinds.add(kind)
    total = kept.total() + sum(quantized.values())
    dtype = kept.most_common(1)[0][0] if kept else "BF16"
    return Counted(total, quantized, frozenset(kinds), dtype)


def _check_scales(
    module: str, kind: str, shape: list[int], entries: Mapping[str, Mapping[str, Any]]
) -> None:
    needed: dict[str, list[int] | None] = {_SCALE: None}
    if kind == "NVFP4":
        needed = {_SCALE: [shape[0], -(-2 * shape[1] // GROUP)], _GLOBAL_SCALE: None}
    for suffix, expected in needed.items():
        found = entries.get(f"{module}{suffix}")
        if found is None:
            raise _damaged(
                f"{module}{_WEIGHT} is stored as {kind}, and {module}{suffix} is missing"
            )
        if expected is not None and list(found["shape"]) != expected:
            raise _damaged(f"{module}{suffix} has the shape {found['shape']}; expected {expected}")


def stored_quantization(settings: JsonObject, found: Counted) -> StoredQuantization:
    """Return how the weights are stored, as hf_quant_config.json says and the headers agree.

    Raises:
        CheckpointError: a format that is not served here, or one that the headers contradict.
    """
    said = section(settings, "quantization") or {}
    algorithm, cache = said.get("quant_algo"), said.get("kv_cache_quant_algo")
    if algorithm not in _READ:
        raise invalid(
            f"{HF_QUANT_CONFIG} says quant_algo = {algorithm}; {' and '.join(_READ)} are served."
            " Use a checkpoint of those, or one that is not quantized"
        )
    if cache not in {None, "FP8"}:
        raise invalid(
            f"{HF_QUANT_CONFIG} says kv_cache_quant_algo = {cache}; FP8 or none is served."
            " Export it with --kv_cache_qformat fp8"
        )
    group = said.get("group_size")
    if algorithm == "NVFP4" and group not in {None, GROUP}:
        raise invalid(f"{HF_QUANT_CONFIG} says group_size = {group}; NVFP4 has {GROUP}")
    if found.kinds and found.kinds != {algorithm}:
        raise _damaged(
            f"{HF_QUANT_CONFIG} says {algorithm}, and matrices are stored as"
            f" {', '.join(sorted(found.kinds))}"
        )
    if not found.quantized:
        raise _damaged(f"{HF_QUANT_CONFIG} says {algorithm}, and no matrix is stored so")
    patterns = [str(one) for one in said.get("exclude_modules") or []]
    for module in sorted(found.quantized):
        if any(fnmatchcase(module, pattern) for pattern in patterns):
            raise _damaged(f"{module} is quantized, and {HF_QUANT_CONFIG} excludes it")
    return StoredQuantization(
        weights=cast("Literal['FP8', 'NVFP4']", algorithm),
        kv_cache=cache,
        quantized_parameters=sum(found.quantized.values()),
    )


def check_unquantized(config: JsonObject) -> None:
    """Refuse a checkpoint of Model-Optimizer without the file that servers read.

    Raises:
        CheckpointError: `ConfigMissing`.
    """
    stated = section(config, "quantization_config") or {}
    if str(stated.get("quant_method", "")).startswith("modelopt"):
        raise CheckpointError(
            InspectReason.CONFIG_MISSING,
            "config.json says that Model-Optimizer quantized the weights, and"
            f" {HF_QUANT_CONFIG} is missing, from which TensorRT-LLM reads how: add the file, which"
            " Model-Optimizer exports beside config.json.",
        )


def _damaged(what: str) -> CheckpointError:
    return CheckpointError(InspectReason.WEIGHTS_INVALID, f"{what}. Export the checkpoint again.")
