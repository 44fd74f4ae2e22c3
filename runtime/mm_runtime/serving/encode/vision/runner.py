"""What runs one batch of a vision engine: named arrays in, features out."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Inputs: TypeAlias = Mapping[str, NDArray[Any]]


class Runner(Protocol):
    """Runs one batch that is within the engine's profile."""

    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        """Return features float32 [batch, rows, hidden]."""
