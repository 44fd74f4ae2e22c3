"""Notes the sum of each prompt table's bits where it leaves the encoder and where it is read.

In the processes of Triton's models, whose sources begin with a call of `start` (sitecustomize).
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDERS: list[str] = []


def note(side: str, tensor: Any, **more: object) -> None:
    """Append the exact sum of a tensor's bits, as integers of its width."""
    import torch  # noqa: PLC0415 - loaded by what made the tensor

    kind = {2: torch.int16, 4: torch.int32}[tensor.element_size()]
    total = int(tensor.contiguous().view(kind).to(torch.int64).sum())
    line = json.dumps({"side": side, "sum": total, "device": tensor.device.type, **more})
    with (Path(FOLDERS[0]) / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(line + "\n")


def patch_hand_over(module: ModuleType) -> None:
    """Note what leaves the encoder."""
    place = module.HandOver.place

    def noted(self: Any, outputs: Any) -> Any:
        placed = place(self, outputs)
        for name in module.FEATURES:
            if name in placed:
                note("encoder", placed[name])
        return placed

    module.HandOver.place = noted


def patch_arrivals(module: ModuleType) -> None:
    """Note what the language model reads, and where it arrived."""
    read = module.InputReader.read

    def noted(self: Any, tensors: Any) -> Any:
        arrived = {name: one.is_cpu() for name, one in tensors.items() if name in module.FEATURES}
        try:
            taken = read(self, tensors)
        except module.PoolFullError:
            with (Path(FOLDERS[0]) / f"{os.getpid()}.jsonl").open("a") as file:
                file.write(json.dumps({"side": "refused"}) + "\n")
            raise
        for name, on_host in arrived.items():
            note("language model", taken[name], arrived="host" if on_host else "GPU")
        return taken

    module.InputReader.read = noted


PATCHES = {
    "mm_runtime.serving.encode.hand_over": patch_hand_over,
    "mm_runtime.serving.generate.input_reader": patch_arrivals,
}


class Finder(importlib.abc.MetaPathFinder):
    """Patches a module right after it was executed.

    Args:
        patches: module -> what changes it.
    """

    def __init__(self, patches: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._patches = patches

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the real specification with a loader that patches."""
        patch = self._patches.get(name)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        loader, execute = spec.loader, spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            patch(module)

        loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def start(folder: str) -> None:
    """Note into a folder from now on."""
    FOLDERS.append(folder)
    sys.meta_path.insert(0, Finder(PATCHES))
