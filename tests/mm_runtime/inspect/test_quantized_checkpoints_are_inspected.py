"""Checkpoints that Model-Optimizer quantized are counted from their headers, or refused by name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.documents.model_facts import InspectReason, ModelFacts
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.cases import cases
from support.hollow_checkpoint import write_safetensors
from support.quantized_checkpoint import TOWER, quantized_qwen, settings, tensors

MATRICES = 28 * (3584 * (2 * 3584 + 2 * 512) + 3 * 3584 * 18944)
"""Of Qwen2.5-VL 7B: 28 layers of attention and a gated perceptron."""

OTHERS = 2 * 152064 * 3584 + TOWER + 3584 + 28 * (2 * 3584 + 3584 + 2 * 512)


def facts(folder: Path) -> ModelFacts:
    return inspect(folder, InspectOptions())


@pytest.mark.parametrize("kind", ["NVFP4", "FP8"])
def test_packed_numbers_are_counted_and_scales_are_not(tmp_path: Path, kind: str) -> None:
    """Two numbers in a byte of NVFP4; the dtype is that of what was not quantized."""
    found = facts(quantized_qwen(tmp_path, kind))

    assert found.parameters == MATRICES + OTHERS
    assert found.dtype == "bfloat16"
    assert found.quantization is not None
    assert found.quantization.weights == kind
    assert found.quantization.kv_cache == "FP8"
    assert found.quantization.quantized_parameters == MATRICES


def test_kept_matrices_are_counted_apart(tmp_path: Path) -> None:
    found = facts(quantized_qwen(tmp_path, cache=None, kept="down_proj"))

    assert found.quantization is not None
    assert found.quantization.kv_cache is None
    assert found.quantization.quantized_parameters == MATRICES - 28 * 3584 * 18944
    assert found.parameters == MATRICES + OTHERS


def test_a_folder_is_planned_with_the_same_facts(tmp_path: Path) -> None:
    folder = quantized_qwen(tmp_path)

    assert facts_of_folder(folder, InspectOptions()) == facts(folder)


def without_settings(folder: Path) -> None:
    (folder / "hf_quant_config.json").unlink()


def saying(
    kind: str = "NVFP4", cache: str | None = "FP8", **more: object
) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        text = json.dumps(settings(kind, cache, **more))
        (folder / "hf_quant_config.json").write_text(text)

    return write


def with_tensors(**changes: tuple[str, list[int]] | None) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        header = tensors(config.get("text_config", config), "NVFP4")
        for end, value in changes.items():
            name = f"model.layers.0.self_attn.q_proj.{end}"
            header.pop(name)
            if value is not None:
                header[name] = value
        write_safetensors(folder / "model.safetensors", header)

    return write


R = InspectReason
INVALID = R.WEIGHTS_INVALID


@cases(
    "damage reason words",
    {
        "no-settings": (without_settings, R.CONFIG_MISSING, "hf_quant_config.json is missing"),
        "another-format": (saying("W4A16_AWQ"), R.CONFIG_INVALID, "quant_algo = W4A16_AWQ"),
        "cache": (saying(cache="NVFP4"), R.CONFIG_INVALID, "kv_cache_quant_algo = NVFP4"),
        "group": (saying(group_size=32), R.CONFIG_INVALID, "group_size = 32"),
        "other-weights": (saying("FP8"), INVALID, "matrices are stored as NVFP4"),
        "quantized-and-excluded": (saying(exclude_modules=["*q_proj"]), INVALID, "excludes it"),
        "no-scale": (with_tensors(weight_scale=None), INVALID, "weight_scale is missing"),
        "no-global": (with_tensors(weight_scale_2=None), INVALID, "weight_scale_2 is missing"),
        "scales-of-32": (
            with_tensors(weight_scale=("F8_E4M3", [3584, 112])),
            INVALID,
            "expected [3584, 224]",
        ),
    },
)
def test_what_is_not_served_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], reason: InspectReason, words: str
) -> None:
    """Before a GPU is taken: what the file says, what the headers hold, what to do."""
    folder = quantized_qwen(tmp_path)
    damage(folder)

    with pytest.raises(InspectRefusedError) as refused:
        facts(folder)

    assert refused.value.reason is reason
    assert words in str(refused.value)
