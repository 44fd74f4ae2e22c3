"""Weights of a checkpoint by name, one at a time: several files may be larger than memory."""

from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from safetensors import safe_open

WEIGHT = ".weight"
SCALE = ".weight_scale"
MATRIX = 2
"""Dimensions from which on a weight could be quantized."""


class Tensors:
    """The tensors of all safetensors files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._open = ExitStack()
        self._files: dict[str, Any] = {}
        for path in sorted(folder.rglob("*.safetensors")):
            file = self._open.enter_context(safe_open(str(path), framework="pt"))
            self._files |= dict.fromkeys(file.keys(), file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def names(self) -> list[str]:
        """Return every name, sorted."""
        return sorted(self._files)

    def read(self, name: str) -> Any:
        return self._files[name].get_tensor(name)

    @property
    def quantized(self) -> set[str]:
        return {name.removesuffix(SCALE) for name in self._files if name.endswith(SCALE)}

    @property
    def kept(self) -> list[str]:
        """Return the modules whose matrices are as they were, sorted."""
        scaled = self.quantized
        modules = (name.removesuffix(WEIGHT) for name in self.names if name.endswith(WEIGHT))
        return [one for one in modules if one not in scaled and self._is_matrix(one)]

    def _is_matrix(self, module: str) -> bool:
        name = f"{module}{WEIGHT}"
        return len(self._files[name].get_slice(name).get_shape()) >= MATRIX


def is_excluded(module: str, patterns: list[str]) -> bool:
    """Return whether a server leaves a module as it is, by hf_quant_config.json's patterns."""
    return any(fnmatchcase(module, pattern) for pattern in patterns)


def with_every_kept(patterns: list[str], tensors: Tensors) -> list[str]:
    """Return patterns that cover every module which was not quantized, sorted.

    Model-Optimizer 0.37 puts the language model's name in front of those of the vision tower
    (`model.layers.visual*`), where no server looks for them.
    """
    quantized = {name.partition(".")[0] for name in tensors.quantized}
    found = set(patterns)
    for module in tensors.kept:
        if not is_excluded(module, sorted(found)):
            first = module.partition(".")[0]
            found.add(module if first in quantized else f"{first}*")
    return sorted(found)
