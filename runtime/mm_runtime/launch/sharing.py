"""How the processes of one server share a GPU: through MPS where the plan says so and it works."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mm_api.documents.serving_plan import GpuSharing
from mm_runtime.launch.mps import MpsDaemon, MpsUnavailableError

log = logging.getLogger(__name__)

PROCESSES = 2
"""Users of the GPU that must have joined: the encoder's process, and the server with the LLM."""


class Mode(StrEnum):
    """What is in force; the label of the metric `mm_server_gpu_sharing`."""

    NONE = "none"
    """One process, or no GPU."""

    MPS = "mps"
    TIME_SLICES = "time-slices"


@dataclass
class Sharing:
    """One server's way of sharing; `mode` may fall back after the start."""

    mode: Mode
    daemon: MpsDaemon | None = None
    problem: str = ""
    """Why it is not MPS, where the plan says MPS."""

    @property
    def environment(self) -> dict[str, str]:
        return self.daemon.environment if self.daemon else {}

    def check(self) -> None:
        """Check that the processes joined, once the server is ready; else fall back and log it.

        A process that found no daemon, or another user's, runs without MPS and says nothing.
        """
        if self.daemon is None:
            return
        try:
            clients = self.daemon.clients()
        except MpsUnavailableError as error:
            self._fall_back(str(error))
            return
        if len(clients) >= PROCESSES:
            log.info("MPS: %d processes share the GPU", len(clients))
        else:
            self._fall_back(f"{len(clients)} processes joined, expected {PROCESSES}")

    def _fall_back(self, reason: str) -> None:
        self.mode, self.problem = Mode.TIME_SLICES, reason
        log_time_slices(reason)


def log_time_slices(reason: str) -> None:
    """Log that the GPU is shared by time slices, what that costs and what to do."""
    log.error(
        "MPS does not work here: %s. Encoder and language model take turns on the GPU, so that"
        " tokens take two to three times as long while images are encoded. Use a container image"
        " and nodes with MPS, or set spec.vision.sharing to TimeSlicing to accept it.",
        reason,
    )


@contextmanager
def shared(plan: GpuSharing | None, folder: Path) -> Iterator[Sharing]:
    """Start the daemon that the plan requires; it ends with the context."""
    if plan is None:
        yield Sharing(Mode.NONE)
        return
    with ExitStack() as stack:
        sharing = Sharing(Mode.TIME_SLICES)
        if plan.mode == "MPS":
            try:
                sharing = Sharing(Mode.MPS, stack.enter_context(MpsDaemon(folder)))
            except MpsUnavailableError as error:
                sharing.problem = str(error)
                log_time_slices(sharing.problem)
        yield sharing
