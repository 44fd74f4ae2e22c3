"""How long passes take on this machine, measured when a model is loaded."""

import time

from mm_runtime.engine.reference.language_model import LanguageModel
from mm_runtime.engine.reference.model import Part
from mm_runtime.engine.reference.schedule import rows_beside

MANY = 32
"""Rows that are compared with one: several times what a step may hold, so that noise is small."""

ROUNDS = 3
"""The fastest counts: other models load at the same time."""


def measured_rows(model: LanguageModel, max_length: int) -> int:
    """Return how many rows of prompts a step of this model may hold beside decoding requests."""
    many = min(MANY, max_length)
    if many < 2:  # noqa: PLR2004 - there is nothing to compare
        return many
    return rows_beside(_seconds(model, 1), _seconds(model, many), many)


def _seconds(model: LanguageModel, count: int) -> float:
    part = Part(0, model.embed([0] * count, None))
    model.run((), (), part)  # the first one allocates
    return min(_timed(model, part) for _ in range(ROUNDS))


def _timed(model: LanguageModel, part: Part) -> float:
    began = time.perf_counter()
    model.run((), (), part)
    return time.perf_counter() - began
