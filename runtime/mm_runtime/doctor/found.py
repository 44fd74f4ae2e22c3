"""What is in this image and on this node, as the checks read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter and what is installed beside it."""

    path: str
    version: Version = (0, 0)
    packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution -> version."""
    torch_cuda: str = ""
    """CUDA's version that torch was built for; empty: for none, or there is no torch."""
    problem: str = ""
    """Why it does not run, or cannot import the project's code; empty: it can."""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was looked at, of which a purpose needs some."""

    own: Interpreter
    """Runs this command, the gateway and the supervisor."""
    engine: Interpreter
    """Runs the models inside Triton, and the steps of a build that read weights."""
    programs: Mapping[str, str]
    """Program -> where PATH has it; empty: nowhere."""
    user: str
    user_id: int
    home: str
    home_is_writable: bool
    server: str = ""
    """Path of tritonserver; empty: none."""
    server_problem: str = ""
    """Why tritonserver cannot be used; empty: it can."""
    native_backend: str = ""
    """Folder of TensorRT-LLM's backend; empty: none."""
    scripts: Path | None = None
    """TensorRT-LLM's root, which holds `examples`; None: there is none."""
    driver_cuda: Version | None = None
    """Newest CUDA that the driver runs; None: no driver is visible."""
    gpus: tuple[str, ...] = ()
    """Name of each visible GPU."""
