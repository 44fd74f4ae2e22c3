"""Requests for encoders that are played: a number stands for an image."""

import queue
from dataclasses import dataclass, field

import numpy as np

from mm_runtime.serving.encode.disaggregated.dispatcher import EncoderDispatcher
from mm_runtime.serving.encode.queue import EncodeQueue
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


@dataclass
class Submitted:
    """Answers to numbered requests, in the order in which they come."""

    answers: queue.SimpleQueue[tuple[int, object]] = field(default_factory=queue.SimpleQueue)

    def submit(self, waiting: EncodeQueue | EncoderDispatcher, number: int, one: Tensors) -> None:
        waiting.submit(one, lambda outcome: self.answers.put((number, outcome)))

    def answer(self) -> tuple[int, str]:
        number, outcome = self.answers.get(timeout=SECONDS)
        return number, ",".join(outcome) if isinstance(outcome, dict) else str(outcome)
