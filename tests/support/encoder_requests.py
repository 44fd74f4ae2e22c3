"""Requests for encoders that are played: a number stands for an image."""

import numpy as np

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors

SECONDS = 60
"""For what happens at once; a busy machine may take a while."""


def image_tensors(number: int) -> Tensors:
    return {"IMAGE": np.array([number])}


def reads(inputs: Tensors) -> object | None:
    """Read as a family's encoder does: no image, or one that is wrong."""
    if "IMAGE" not in inputs:
        return None
    if inputs["IMAGE"].item() < 0:
        raise RequestError("a wrong image")
    return inputs["IMAGE"]
