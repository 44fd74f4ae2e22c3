"""Model-Optimizer itself, as hf_ptq.py calls it: insert, calibrate, write in Hugging Face's layout.

Two forms of its settings are known: a mapping (0.33 to 0.37, in images of TensorRT-LLM 1.0 to 1.2)
and a list in which the last entry that fits counts (0.47).
"""

import copy
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export import export_hf_checkpoint
from transformers import AutoModelForImageTextToText, AutoTokenizer

from mm_runtime.errors import PermanentError
from mm_runtime.quantization.calibration import LONGEST
from mm_runtime.reference_engine.all_weights import load_weights

log = logging.getLogger(__name__)

KEPT = (
    "*lm_head*",
    "*visual*",
    "*vision_model*",
    "*vision_tower*",
    "*multi_modal_projector*",
    "*cross_attn*",
)
"""Modules that stay as they are: what reads images, what writes tokens, and MLLAMA's cross
attention, which the server does not load (its layers are None in modeling_mllama.py)."""


def write_quantized(
    checkpoint: Path, output: Path, texts: Sequence[str], *, weights: str, kv_cache: str
) -> None:
    """Write weights, config.json and hf_quant_config.json of the quantized checkpoint.

    Raises:
        PermanentError: transformers has no class for the checkpoint, or calibration reached
            nothing of it.
    """
    torch.manual_seed(0)
    model, rows = _loaded(checkpoint), list(_rows(checkpoint, texts))
    log.info("calibrating with %d texts, %d tokens", len(rows), sum(len(row) for row in rows))

    def calibrate(_: object) -> None:
        for number, row in enumerate(rows, start=1):
            model(input_ids=row[None], attention_mask=torch.ones_like(row)[None])
            log.info("%d of %d texts, %d %%", number, len(rows), 100 * number // len(rows))

    with torch.no_grad():
        mtq.quantize(model, settings(weights, kv_cache), forward_loop=calibrate)
        _keep_what_was_not_reached(model)
        export_hf_checkpoint(model, export_dir=str(output))


def settings(weights: str, kv_cache: str) -> dict[str, Any]:
    """Return Model-Optimizer's settings: weights and activations of one kind, the cache of one."""
    chosen: dict[str, Any] = copy.deepcopy(getattr(mtq, f"{weights}_DEFAULT_CFG"))
    cache = copy.deepcopy(getattr(mtq, f"{kv_cache}_KV_CFG")["quant_cfg"])
    if isinstance(chosen["quant_cfg"], dict):
        chosen["quant_cfg"] |= cache | {name: {"enable": False} for name in KEPT}
    else:
        chosen["quant_cfg"] += [
            *cache,
            *({"quantizer_name": name, "enable": False} for name in KEPT),
        ]
    return chosen


def _loaded(checkpoint: Path) -> Any:
    try:
        model = load_weights(
            AutoModelForImageTextToText,
            checkpoint,
            dtype="auto",
            trust_remote_code=False,
            local_files_only=True,
        )
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise PermanentError(
            f"transformers cannot load {checkpoint}: {error}. Remove spec.engine.quantization, or"
            " build with an image whose transformers knows the model."
        ) from error
    return model.eval()


def _rows(checkpoint: Path, texts: Sequence[str]) -> Iterator[torch.Tensor]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            checkpoint, trust_remote_code=False, local_files_only=True
        )
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise PermanentError(
            f"transformers cannot read the tokenizer of {checkpoint}: {error}. Save it beside the"
            " weights: AutoProcessor.from_pretrained(...).save_pretrained(...)."
        ) from error
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=LONGEST)["input_ids"]
        if ids:
            yield torch.tensor(ids)


def _keep_what_was_not_reached(model: Any) -> None:
    """Leave layers as they are whose inputs were never observed: their ranges are not known.

    MLLAMA skips the complete layer around its cross attention where there is no image.
    """
    found = {
        name: module.input_quantizer.amax is not None
        for name, module in model.named_modules()
        if getattr(module, "input_quantizer", None) is not None
        and getattr(module, "weight_quantizer", None) is not None
        and module.input_quantizer.is_enabled
    }
    if not any(found.values()):
        raise PermanentError(
            "Calibration reached no layer that can be quantized: remove spec.engine.quantization."
        )
    for name in (name for name, reached in found.items() if not reached):
        mtq.disable_quantizer(model, f"{name}.*")
        log.info("%s is kept: no text reaches it", name)
