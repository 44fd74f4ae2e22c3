"""A checkpoint's own vision half, in torch and float32, as the encoder of requests."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.tower import Tower
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision.features import RequestEncoder
from mm_runtime.serving.encode.vision.load import encoder_of
from mm_runtime.serving.encode.vision.runner import Inputs
from mm_runtime.serving.encode.vision.session import VisionSession

NEWLINE = "image_newline"


def tower_encoder(directory: EngineDirectory) -> RequestEncoder | None:
    """Return the encoder of a checkpoint; None: images are not part of its plan.

    Raises:
        OSError, ValueError: a file is missing or not understood.
    """
    vision = directory.vision
    if vision is None:
        return None
    tower = load_tower(
        directory.llm,
        directory.facts,
        trust_remote_code=directory.manifest.plan.trust_remote_code,
    )
    session = VisionSession(_TowerRunner(tower), max_batch_size=vision.max_batch_size)
    return encoder_of(directory, vision, session, tower.extras.get(NEWLINE))


class _TowerRunner:
    """Runs a tower; what was loaded around it is let go."""

    def __init__(self, tower: Tower) -> None:
        self._module = tower.module
        self._names = tuple(one.name for one in tower.inputs)

    @torch.inference_mode()
    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        given = [torch.tensor(_floats(inputs[name])) for name in self._names]
        features: NDArray[np.float32] = self._module(*given).float().numpy()
        return features


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float32) if values.dtype.kind == "f" else values
