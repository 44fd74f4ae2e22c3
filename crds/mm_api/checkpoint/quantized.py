"""Quantized checkpoints: those of Model-Optimizer are read, others are refused by name.

A matrix of NVFP4 has two numbers in a byte of `weight`, one FP8 number for 16 of a row in
`weight_scale`, and one FP32 number in `weight_scale_2`; one of FP8 has a byte a number and one FP32
number. Scales of activations and of the cache stand beside them (export of NVIDIA/Model-Optimizer,
modelopt/torch/export/quant_utils.py; tensorrt_llm/_torch/modules/linear.py).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from mm_api.checkpoint.values import CheckpointError, JsonObject, invalid, section
from mm_api.documents.model_facts import InspectReason, StoredQuantization

HF_QUANT_CONFIG = "hf_quant_config.json"
"""Says how weights are stored; read by trtllm-serve (tensorrt_llm/_torch/model_config.py)."""

GROUP = 16
"""Numbers of a row that share a scale in NVFP4."""

_WEIGHT = ".weight"
_SCALE = ".weight_scale"
_GLOBAL_SCALE = ".weight_scale_2"
SCALES = (_SCALE, _GLOBAL_SCALE, ".input_scale", ".k_scale", ".v_scale")
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
    """As in safetensors: what most of the other weights are stored as."""


def counted(entries: Mapping[str, Mapping[str, Any]]) -> Counted:
    """Return name -> dtype and shape of all headers; CheckpointError: scales that do not fit."""
    quantized: dict[str, int] = {}
    kinds, kept = set[str](), Counter[str]()
    for name, entry in entries.items():
        if name.endswith(SCALES):
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
    """Return how weights are stored, by hf_quant_config.json; CheckpointError: untrue."""
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


_OTHERS = {
    "aqlm": "vLLM",
    "auto-round": "vLLM and SGLang",
    "awq": "vLLM, SGLang and LMDeploy",
    "bitsandbytes": "transformers on a GPU, and vLLM",
    "compressed-tensors": "vLLM and SGLang",
    "eetq": "transformers on a GPU",
    "fbgemm_fp8": "vLLM",
    "fp8": "vLLM and SGLang",
    "gptq": "vLLM, SGLang and LMDeploy",
    "hqq": "transformers on a GPU",
    "mlx": "MLX on Apple's processors",
    "mxfp4": "vLLM and SGLang",
    "quanto": "transformers",
    "quark": "vLLM and SGLang",
    "torchao": "transformers, and vLLM",
}
"""quant_method of config.json -> what serves such weights. No backend here does: of those that
Model-Optimizer writes (`modelopt`), TensorRT-LLM on backend PyTorch reads FP8 and NVFP4."""

_INSTEAD = (
    "Use the checkpoint that it was made of, which is not quantized, or an export of"
    " Model-Optimizer in FP8 or NVFP4 on backend PyTorch"
)
_STATED = ("quantization_config", "compression_config")
_MLX = "quantization"
_DEEPEST = 4
"""Sections within sections: Qwen2.5-Omni's text model is in the third."""


def check_method(config: JsonObject, *, exported: bool) -> None:
    """Refuse (CheckpointError) weights quantized in a way that no backend here reads.

    `config`: of the checkpoint, with every section.
    """
    for where, stated in _quantizations(config, "", _DEEPEST):
        method = _method(stated)
        if method is not None and method.startswith("modelopt"):
            if exported:
                continue
            raise CheckpointError(
                InspectReason.CONFIG_MISSING,
                "config.json says that Model-Optimizer quantized the weights, and"
                f" {HF_QUANT_CONFIG} is missing, from which TensorRT-LLM reads how: add the file,"
                " which Model-Optimizer exports beside config.json.",
            )
        if method is None:
            raise invalid(
                f"config.json {where} names no quant_method, so nothing reads the weights."
                f" {_INSTEAD}, or remove {where} if the weights are not quantized"
            )
        others = f"{_OTHERS[method]} can" if method in _OTHERS else "it is not known here"
        raise invalid(
            f"config.json {where} says quant_method = {method[:40]!r}: no backend here serves such"
            f" weights ({others}). {_INSTEAD}"
        )


def _quantizations(config: JsonObject, where: str, depth: int) -> Iterator[tuple[str, JsonObject]]:
    """Yield place and content of every section that says how weights are quantized."""
    for key, value in config.items():
        place = f"{where}{key}"
        if key in _STATED and value is not None:
            yield place, section(config, key) or {}
        elif isinstance(value, dict) and key == _MLX and "bits" in value:
            yield place, {"quant_method": "mlx"}
        elif isinstance(value, dict) and depth:
            yield from _quantizations(value, f"{place}.", depth - 1)


def _method(stated: JsonObject) -> str | None:
    """Return the method's name; bitsandbytes' configurations once left it out."""
    method = stated.get("quant_method")
    if isinstance(method, str):
        return method.lower()
    loaded = any(stated.get(key) for key in ("load_in_4bit", "load_in_8bit"))
    return "bitsandbytes" if loaded else None


_PARTS = frozenset(
    {
        *("weight_scale", "weight_scale_2", "weight_scale_inv", "weight_scales", "input_scale"),
        *("activation_scale", "k_scale", "v_scale", "weight_packed", "weight_zero_point"),
        *("qweight", "qzeros", "scales", "g_idx"),  # AWQ and GPTQ
        *("absmax", "quant_map", "nested_absmax", "nested_quant_map", "SCB"),  # bitsandbytes
        *("W_q", "weight_blocks"),  # HQQ, MXFP4
    }
)
"""Last parts of the names of what quantizers write in place of a matrix, or beside it."""

_MARKS = (".quant_state.", ".weight._data", ".weight._scale", ".weight._qdata")
_ENDS = ("_blocks", "_scale_inv", "_proj_scales")
"""Names within experts, which are no modules: `gate_up_proj_blocks`."""

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


def check_floats(entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse (CheckpointError) scales and packed numbers where no file says how they are read.

    transformers leaves such tensors out, or reads the packed numbers as weights. `entries`: name of
    a tensor -> dtype and shape.
    """
    for name, entry in entries.items():
        last = name.rpartition(".")[2]
        scaled = last in _PARTS or last.endswith(_ENDS) or any(mark in name for mark in _MARKS)
        matrix = len(entry.get("shape") or ()) >= _MATRIX and last == "weight"
        if scaled or (matrix and entry.get("dtype") not in _FLOATS):
            raise CheckpointError(
                InspectReason.WEIGHTS_INVALID,
                f"tensor {name} ({entry.get('dtype')}) is of a quantization that neither"
                f" config.json nor {HF_QUANT_CONFIG} describes, so nothing applies it. {_INSTEAD}.",
            )


def _damaged(what: str) -> CheckpointError:
    return CheckpointError(InspectReason.WEIGHTS_INVALID, f"{what}. Export the checkpoint again.")
