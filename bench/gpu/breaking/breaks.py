"""Breaks the GPU of a process once: an index past the end of a tensor, as a defect would.

CUDA fails every call of the process from then on. In the processes of Triton's models, whose
sources begin with a call of `start` (sitecustomize).
"""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDERS: list[str] = []


def breaking(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that breaks the GPU first, once a file of that name is there."""

    @wraps(call)
    def broken(*arguments: Any, **named: Any) -> Any:
        flag = Path(FOLDERS[0]) / name
        if flag.exists():
            flag.unlink()
            import torch  # noqa: PLC0415 - loaded by what computes here

            values = torch.zeros(4, device="cuda")
            print("broken:", values[torch.tensor([1 << 40], device="cuda")].tolist())
        return call(*arguments, **named)

    return broken


def patch_language_model(module: ModuleType) -> None:
    """Break when a request begins."""
    module.LanguageModel.begin = breaking("tensorrt_llm", module.LanguageModel.begin)


def patch_encoder(module: ModuleType) -> None:
    """Break when images are encoded."""
    module.TorchRunner.__call__ = breaking("multimodal_encoders", module.TorchRunner.__call__)


PATCHES = {
    "mm_runtime.reference_engine.language_model": patch_language_model,
    "mm_runtime.serving.encode.vision.torch_runner": patch_encoder,
}


def start(folder: str) -> None:
    """Look for files in a folder from now on."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "sums"))
    from notes import Finder  # noqa: PLC0415 - it lies where the line above says

    FOLDERS.append(folder)
    sys.meta_path.insert(0, Finder(PATCHES))
