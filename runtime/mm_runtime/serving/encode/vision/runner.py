"""What runs one batch of a vision engine: named arrays in, features out."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypedDict

from numpy.typing import NDArray

from mm_runtime.images.normalisation import Normalisation

Inputs: TypeAlias = Mapping[str, NDArray[Any]]
Rows: TypeAlias = Any
"""Features [batch, rows, hidden]: an array of float32, or a tensor of torch."""


class Runner(Protocol):
    """Runs one batch that is within the engine's profile."""

    def __call__(self, inputs: Inputs) -> Rows:
        """Return features float32 [batch, rows, hidden]."""


class RunnerOptions(TypedDict, total=False):
    """What runners on a GPU do beside computing."""

    keeps: bool
    """Features of a GPU stay there, as tensors; else they come back as arrays."""

    half: bool
    """Torch computes in float16, if features are nearly those of float32."""

    graphs: int
    """Runs of at most so many images start as CUDA graphs; pixels are the only input then."""

    normalisation: Normalisation | None
    """How pixels that come as bytes are normalised; None: none do."""

    leave_as: str
    """Torch's name of a type: features that do not stay on a GPU come as tensors of that type in
    host memory; empty: as arrays of float32."""
