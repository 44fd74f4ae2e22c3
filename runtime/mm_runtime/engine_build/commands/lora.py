"""Turn LoRA adapters into the two arrays that the server's run-time cache takes.

For each engine of each adapter `model.lora_weights.npy` [1, modules, values] and
`model.lora_config.npy` [1, modules, 3] with (module id, layer, rank), as TensorRT-LLM's
examples/hf_lora_convert.py writes them. A row holds A (rank x input) and B (output x rank, times
alpha / rank), one after the other, and zeros up to the longest.
"""

import json
import logging
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.check import read_config
from mm_runtime.adapters.files import WEIGHTS
from mm_runtime.adapters.layout import MODULE_IDS, place_of
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

INDEX = "adapters.json"
BASE_UID = -1

Rows = dict[tuple[int, str], dict[str, torch.Tensor]]
"""(layer, module) -> its two matrices, A and B."""


def lora(context: StepContext) -> None:
    """Write `lora/NAME/ENGINE/` for each adapter, and the list of their names and uids."""
    build = context.plan.trtllm
    if build is None:
        raise PermanentError("The plan has no commands, which this step needs.")
    index: list[dict[str, Any]] = [{"name": "", "uid": BASE_UID}]
    for adapter in build.lora:
        folder = context.paths.adapters / adapter.name
        scale = read_config(adapter.name, folder).scale
        engines = _sorted_by_engine(load_file(folder / WEIGHTS), context.plan.facts)
        for engine, rows in engines.items():
            target = context.paths.lora / adapter.name / engine
            target.mkdir(parents=True, exist_ok=True)
            _write(target, rows, scale, context.plan.engine.dtype)
        index.append({"name": adapter.name, "uid": adapter.uid, "engines": sorted(engines)})
        log.info(
            "adapter %s: %s", adapter.name, {name: len(rows) for name, rows in engines.items()}
        )
    (context.paths.lora / INDEX).write_text(json.dumps(index, indent=1))


def _sorted_by_engine(tensors: dict[str, torch.Tensor], facts: ModelFacts) -> dict[str, Rows]:
    """Return the matrices by engine; `fetch_adapters` has looked whether they fit."""
    engines: dict[str, Rows] = defaultdict(lambda: defaultdict(dict))
    for name, tensor in sorted(tensors.items()):
        place = place_of(name, facts)
        engines[place.engine][place.layer, place.module][place.side] = tensor
    return engines


def _write(target: Path, rows: Rows, scale: float, dtype: str) -> None:
    kind: torch.dtype = getattr(torch, dtype)
    values, config = [], []
    for (layer, module), sides in sorted(rows.items()):
        rank = sides["A"].shape[0]
        both = (sides["A"].float(), sides["B"].float() * scale)
        values.append(torch.cat([one.flatten() for one in both]).to(kind))
        config.append((MODULE_IDS[module], layer, rank))
    width = max(len(one) for one in values)
    padded = torch.stack([torch.nn.functional.pad(one, (0, width - len(one))) for one in values])
    np.save(target / "model.lora_weights.npy", _as_numpy(padded.unsqueeze(0)))
    np.save(target / "model.lora_config.npy", np.asarray([config], dtype=np.int32))


def _as_numpy(tensor: torch.Tensor) -> "np.ndarray[Any, Any]":
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view("V2")
    return tensor.numpy()


if __name__ == "__main__":
    run_step(lora)
