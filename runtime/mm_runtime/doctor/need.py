"""PURE: what an image is needed for."""

from dataclasses import dataclass
from typing import Literal, get_args

from mm_api.documents.build_plan import BuildPlan

Purpose = Literal["inspect", "build", "serve"]
Backend = Literal["Reference", "TensorRT", "PyTorch"]

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
BACKENDS: tuple[Backend, ...] = get_args(Backend)


@dataclass(frozen=True, slots=True)
class Need:
    """What the image has to do."""

    purposes: frozenset[Purpose]
    backend: Backend
    gpu: bool = False
    """Backend Reference on CUDA; the others need a GPU in any case."""
    mps: bool = False
    """Processes of one server share a GPU by MPS."""
    onnx: bool = False
    """A vision tower is exported to ONNX, or run from it."""
    addresses: tuple[str, ...] = ()
    """Of sources and stores: they decide which clients are needed."""

    def serves(self, *backends: Backend) -> bool:
        """Return whether an engine of one of these backends is served."""
        return "serve" in self.purposes and self.backend in backends

    def builds(self, *backends: Backend) -> bool:
        """Return whether an engine for one of these backends is built."""
        return "build" in self.purposes and self.backend in backends

    @property
    def on_gpu(self) -> bool:
        """Return whether anything runs on a GPU: TensorRT builds there, all others only serve."""
        if self.backend == "Reference":
            return self.gpu and "serve" in self.purposes
        return self.builds("TensorRT") or "serve" in self.purposes

    def reads(self, scheme: str) -> bool:
        """Return whether a source or store has addresses of this scheme."""
        return any(one.startswith(scheme) for one in self.addresses)


def inspect_need(*sources: str) -> Need:
    """Return what an inspection needs."""
    return Need(frozenset({"inspect"}), "Reference", addresses=sources)


def build_need(plan: BuildPlan, *addresses: str) -> Need:
    """Return what a build needs.

    Args:
        plan: the build.
        addresses: of checkpoint, adapters and store.
    """
    vision = plan.engine.vision
    return Need(
        frozenset({"build"}),
        plan.engine.backend,
        onnx=plan.engine.backend == "Reference" and vision is not None and vision.engine != "Torch",
        addresses=addresses,
    )
