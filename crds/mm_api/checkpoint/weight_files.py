"""PURE: which files of a checkpoint's folder are its weights, as transformers chooses them.

Repositories often hold a second copy: in another layout (`consolidated.safetensors`), precision
(`model.fp32.safetensors`) or format (`pytorch_model.bin`). Inspection, fetch, build, evaluation and
plan take the same one.
"""

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from typing import Final

from mm_api.checkpoint.values import JsonObject

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
PICKLE_INDEX: Final = "pytorch_model.bin.index.json"
_CHOICES: Final = (SINGLE, INDEX, "pytorch_model.bin", PICKLE_INDEX)
"""In the order of transformers 5.23 (modeling_utils._get_resolved_checkpoint_files), after what
`transformers_weights` of config.json names."""

_LOOSE: Final = ("pytorch_model*.bin", "model*.pt")
"""Pickles without an index; the latter as FairSeq writes them."""

SUFFIXES: Final = (".safetensors", ".bin", ".pt", ".pth")
_INDEX_PATTERNS: Final = ("*.safetensors.index*.json", "*.bin.index*.json")
"""With those of variants: `model.safetensors.index.fp32.json`."""


def weight_files(
    names: Collection[str], read: Callable[[str], JsonObject]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the index, if it is one that names them, and the files of the weights.

    `names`: of one folder's files. `read`: a JSON file of it, empty where it cannot be read.
    """
    named = read("config.json").get("transformers_weights") if "config.json" in names else None
    ordered = (named, *_CHOICES) if isinstance(named, str) else _CHOICES
    chosen = next((one for one in ordered if one in names), None)
    if chosen is None:
        loose = (one for pattern in _LOOSE for one in names if fnmatchcase(one, pattern))
        return None, tuple(sorted(loose))
    if not chosen.endswith(".json"):
        return None, (chosen,)
    listed = read(chosen).get("weight_map")
    values = listed.values() if isinstance(listed, dict) else ()
    return chosen, tuple(sorted({str(name) for name in values}))


def without_copies(names: Collection[str], read: Callable[[str], JsonObject]) -> frozenset[str]:
    """Return the files of a folder that count: every other copy of its weights is left out.

    All count where no weights are found: an adapter's folder has none, and inspection refuses
    others.
    """
    index, weights = weight_files(names, read)
    if not weights:
        return frozenset(names)
    return frozenset(name for name in names if not is_weights(name) or name in {index, *weights})


def is_weights(name: str) -> bool:
    """Return whether a file holds weights, or says in which files they are."""
    indexed = any(fnmatchcase(name, pattern) for pattern in _INDEX_PATTERNS)
    return indexed or name.endswith(SUFFIXES)
