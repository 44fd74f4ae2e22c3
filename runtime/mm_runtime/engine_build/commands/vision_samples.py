"""Sample inputs for the comparison of the exported vision model with torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Run: TypeAlias = tuple[dict[str, Array], Array]
"""Inputs of one run by name, and torch's features [batch, rows, hidden]."""

SAMPLES = 8
"""Images that are compared: extremes and a few in between; seconds even for a large tower."""

SEED = 20250
"""Fixed, so that two builds of one checkpoint measure the same."""

DARKEST, BRIGHTEST = -2.0, 2.7
"""Range of CLIP's normalised input."""

FEATURES = "features"
"""Output of the exported model: float32 [batch, rows, hidden size of the language model]."""


def images(side: int) -> npt.NDArray[np.float32]:
    """Return normalised images, float32[SAMPLES, 3, side, side]: black, white, ramps, noise."""
    random = np.random.default_rng(SEED)
    shape = (3, side, side)
    ramp = np.linspace(DARKEST, BRIGHTEST, side, dtype=np.float32)
    samples = [
        np.full(shape, DARKEST, dtype=np.float32),
        np.full(shape, BRIGHTEST, dtype=np.float32),
        np.broadcast_to(ramp, shape),
        np.broadcast_to(ramp[:, None], shape),
    ]
    while len(samples) < SAMPLES:
        samples.append(random.uniform(DARKEST, BRIGHTEST, shape).astype(np.float32))
    return np.stack(samples)


def write(path: Path, runs: Sequence[Run]) -> None:
    arrays: dict[str, Any] = {}
    for number, (inputs, features) in enumerate(runs):
        named = {**inputs, FEATURES: features}
        arrays |= {f"{number}.{name}": array for name, array in named.items()}
    np.savez(path, **arrays)


def read(path: Path) -> list[Run]:
    runs: dict[int, dict[str, Array]] = {}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            number, _, name = key.partition(".")
            runs.setdefault(int(number), {})[name] = stored[key]
    return [(runs[number], runs[number].pop(FEATURES)) for number in sorted(runs)]
