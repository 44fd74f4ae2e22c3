"""Which weights of a checkpoint stay on disk when a pass reads them from there.

Transformers' `device_map` does it with accelerate's hooks: each matrix is read from the safetensors
when its module computes, and dropped after it. Every value that is computed is the same.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

_PROCESSOR, _DISK = "cpu", "disk"


def places(kind: Any, folder: Path, written: Path) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` that leave every stack of layers on disk.

    Embeddings, norms around the layers and output matrices are in memory.

    `written`: for weights that are not on disk as the class has them.
    """
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    with torch.device("meta"):
        automatic = hasattr(kind, "from_config")
        model = kind.from_config(config) if automatic else kind(config)
    return {"device_map": dict(_placed(model, "")), "offload_folder": str(written)}


def _placed(module: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield a device for each part of a module, the largest parts that have one."""
    if isinstance(module, torch.nn.ModuleList):
        for name, _ in module.named_children():
            yield f"{path}.{name}", _DISK
        return
    if not any(isinstance(one, torch.nn.ModuleList) for one in module.modules()):
        yield path, _PROCESSOR
        return
    if path and any(True for _ in module.parameters(recurse=False)):
        yield path, _DISK  # a tower with weights of its own: only modules have a place
        return
    for name, part in module.named_children():
        yield from _placed(part, f"{path}.{name}" if path else name)
