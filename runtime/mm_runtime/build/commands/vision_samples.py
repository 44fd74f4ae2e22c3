"""Sample pictures for the comparison of the exported vision model with torch."""

from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float32]

SAMPLES = 8
"""Pictures that are compared: extremes and a few in between; seconds even for a large tower."""

SEED = 20250
"""Fixed, so that two builds of one checkpoint measure the same."""

DARKEST, BRIGHTEST = -2.0, 2.7
"""Range of CLIP's normalised input."""


def pictures(side: int) -> Array:
    """Return normalised pictures, float32[SAMPLES, 3, side, side]: black, white, ramps, noise."""
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


def write(path: Path, samples: Array, features: Array) -> None:
    """Keep pictures and torch's features, float32[SAMPLES, features per image, hidden]."""
    np.savez(path, pictures=samples, features=features)


def read(path: Path) -> tuple[Array, Array]:
    """Return (pictures, torch's features)."""
    with np.load(path, allow_pickle=False) as stored:
        return stored["pictures"], stored["features"]
