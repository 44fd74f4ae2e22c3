"""What a running server knows of itself and its pod's status cannot say, as JSON on its own port.

The supervisor of tritonserver writes it, the operator fetches it: a pod may not write its own
annotations, and its termination message is read only once it has ended.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.evaluation import EvaluationReport

PATH = "/state"
"""On the port of the server's metrics."""

Pool = Literal["cuda", "pinned"]


PROBLEM_CHARACTERS = 1000
"""Length of a problem: it becomes a condition and an Event, whose note has 1,024 bytes."""


class Role(StrEnum):
    """What a pod is there for."""

    SERVER = "server"
    """Answers complete requests."""

    ENCODER = "encoder"
    """Encodes images for the servers of its model, and nothing else."""


class PoolState(Document):
    """One of Triton's memory pools."""

    pool: Pool
    planned_bytes: int = Field(ge=0, description="What tritonserver reserves.")
    full: int = Field(
        default=0, ge=0, description="Servers of this pod that said it is full; each says it once."
    )


class ServerState(Document):
    """One server container since its start."""

    format_version: Literal[1] = 1
    role: Role = Field(
        default=Role.SERVER, description="Of the pod: language model, or vision encoder by itself."
    )
    pools: list[PoolState] = Field(default=[])
    sharing_problem: str = Field(
        default="", description="Why the GPU is shared by time slices though MPS was planned."
    )
    kernel_problem: str = Field(
        default="",
        max_length=PROBLEM_CHARACTERS,
        description="Why the language model computes without the kernels of its GPU.",
    )
    warm_up_problem: str | None = Field(
        default=None,
        max_length=PROBLEM_CHARACTERS,
        description="Why the warm-up of the pod's gateway fails each time. None: it does not.",
    )
    evaluation: EvaluationReport | None = Field(
        default=None,
        description="How the pod's answers compare with the checkpoint's. None: not compared yet, "
        "or the engine has no answers to compare with.",
    )

    @property
    def notable(self) -> bool:
        """Return whether a model's status depends on it."""
        return (
            bool(self.sharing_problem or self.kernel_problem or self.warm_up_problem)
            or any(pool.full for pool in self.pools)
            or self.evaluation is not None
        )
