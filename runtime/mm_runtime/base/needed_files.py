"""PURE: which files of an engine a pod opens, and so pulls and checks before it serves."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from mm_api.documents.engine_manifest import EngineFile
from mm_api.documents.server_state import Role
from mm_api.trtllm_layout import VISION_FOLDERS

_WEIGHTS = frozenset({".safetensors", ".engine", ".npy", ".npz", ".bin", ".pt", ".pth"})
"""Endings of weights, of every build; what else lies beside them is small."""


def needed_files(files: Sequence[EngineFile], role: Role) -> list[EngineFile]:
    """Return the files that a pod of this role reads.

    An encoder opens the vision engine, configurations and the processor. Weights of the language
    model, which are nearly all of an engine's bytes, are for others to pull and check.
    """
    return [file for file in files if role is Role.SERVER or _read_by_encoders(file.path)]


def _read_by_encoders(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parts[0] in VISION_FOLDERS or path.suffix not in _WEIGHTS
