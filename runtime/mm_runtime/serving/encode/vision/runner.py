"""What runs one batch of a vision engine: named arrays in, features out."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

Inputs: TypeAlias = Mapping[str, NDArray[Any]]
Rows: TypeAlias = Any
"""Features [batch, rows, hidden]: an array of float32, or a tensor of torch."""


class Runner(Protocol):
    """Runs one batch that is within the engine's profile."""

    def __call__(self, inputs: Inputs) -> Rows:
        """Return features float32 [batch, rows, hidden]."""
