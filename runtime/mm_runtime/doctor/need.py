"""PURE: what an image is needed for."""

from dataclasses import dataclass
from typing import Literal, get_args

from mm_api.backends import BACKENDS, DEFAULT, Traits
from mm_api.documents.build_plan import BuildPlan

Purpose = Literal["inspect", "build", "serve"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


@dataclass(frozen=True, slots=True)
class Need:
    """What the image has to do."""

    purposes: frozenset[Purpose]
    backend: Traits
    gpu: bool = False
    """A backend that needs no GPU is served on one."""
    mps: bool = False
    """Processes of one server share a GPU by MPS."""
    onnx: bool = False
    """A vision tower is exported to ONNX, or run from it."""
    tensorrt: bool = False
    """A vision tower is built by TensorRT, on backend Reference."""
    addresses: tuple[str, ...] = ()
    """Addresses of sources and stores: they decide which clients are needed."""

    @property
    def serves(self) -> bool:
        return "serve" in self.purposes

    @property
    def builds(self) -> bool:
        return "build" in self.purposes

    @property
    def works(self) -> bool:
        return self.purposes != {"inspect"}

    @property
    def builds_engines(self) -> bool:
        return self.builds and self.backend.builds_engines

    @property
    def on_gpu(self) -> bool:
        served = self.serves and (self.gpu or self.backend.needs_gpu)
        return self.builds_engines or self.tensorrt or served

    def reads(self, scheme: str) -> bool:
        return any(one.startswith(scheme) for one in self.addresses)


def inspect_need(*sources: str) -> Need:
    return Need(frozenset({"inspect"}), BACKENDS[DEFAULT], addresses=sources)


def build_need(plan: BuildPlan, *addresses: str) -> Need:
    """Return what a build needs."""
    traits, vision = plan.engine.traits, plan.engine.vision
    onnx = traits.runs_checkpoints and vision is not None and vision.engine != "Torch"
    tensorrt = vision is not None and vision.tensorrt is not None
    return Need(
        frozenset({"build"}),
        traits,
        gpu=tensorrt,
        onnx=onnx,
        tensorrt=tensorrt,
        addresses=addresses,
    )
