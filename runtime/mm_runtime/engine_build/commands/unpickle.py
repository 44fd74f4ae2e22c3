"""Turn pickled weights into safetensors. Only runs when the plan allows pickles."""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.finite import refuse_not_finite

log = logging.getLogger(__name__)


def unpickle(context: StepContext) -> None:
    """Write one safetensors file for each pickle, and the index that Hugging Face expects."""
    if not context.plan.allow_pickle:
        raise PermanentError("The weights are pickles and the plan does not allow them.")
    pickles = sorted(context.paths.pickles.iterdir())
    weights = context.paths.weights
    all_bytes = max(1, sum(pickle.stat().st_size for pickle in pickles))
    if len(pickles) == 1:
        _convert(pickles[0], weights / "model.safetensors")
        return
    weight_map: dict[str, str] = {}
    total = done = 0
    for number, pickle in enumerate(pickles, start=1):
        name = f"model-{number:05d}-of-{len(pickles):05d}.safetensors"
        tensors = _convert(pickle, weights / name)
        total += sum(tensor.nbytes for tensor in tensors.values())
        weight_map |= dict.fromkeys(tensors, name)
        done += pickle.stat().st_size
        log.info("%d of %d MiB, %d %%", done >> 20, all_bytes >> 20, 100 * done // all_bytes)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (weights / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def _convert(pickle: Path, destination: Path) -> dict[str, torch.Tensor]:
    log.info("%s -> %s", pickle.name, destination.name)
    # weights_only: the unpickler of torch that builds tensors and nothing else.
    loaded: Any = torch.load(pickle, map_location="cpu", weights_only=True, mmap=True)
    # safetensors refuses tensors that share memory (tied weights): each gets its own.
    tensors = {name: tensor.contiguous().clone() for name, tensor in loaded.items()}
    save_file(tensors, destination, metadata={"format": "pt"})
    refuse_not_finite([destination])
    return tensors


if __name__ == "__main__":
    run_step(unpickle)
