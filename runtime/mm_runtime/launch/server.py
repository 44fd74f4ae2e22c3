"""What the supervisor needs of a server, whichever program it is."""

import logging
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mm_api.contract import METRICS_PATH
from mm_runtime.launch.health import InFlight, State


@dataclass(frozen=True, slots=True)
class Command:
    """How a program is started."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path | None = None
    """Its working directory; None: this process's."""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Where a server shows its own metrics, on loopback."""

    port: int
    path: str = METRICS_PATH


class Server(Protocol):
    """A program that serves one engine, and how its state is read."""

    @property
    def name(self) -> str:
        """The program's name, for messages."""

    @property
    def command(self) -> Command:
        """How it is started; the same at every start."""

    @property
    def metrics(self) -> MetricsPage:
        """Where its own metrics are."""

    @property
    def restarts(self) -> bool:
        """Whether it can be started again in the same container after it died."""

    def state(self) -> State:
        """Return how it is now."""

    def is_alive(self) -> bool:
        """Return whether it answers at all, ready or not."""

    def in_flight(self) -> InFlight | None:
        """Return the requests inside of it; None when it does not say."""

    def clean(self) -> None:
        """Remove what a killed one leaves behind."""


log = logging.getLogger(__name__)


def report_locked_memory(ranks: int, limit: int | None = None) -> None:
    """Log a limit that NVIDIA's containers are not started with (`--ulimit memlock=-1`).

    What NCCL registers with a network adapter counts; without the limit raised it ends with
    "unhandled system error", which names neither. It comes from the node's container runtime.

    Args:
        ranks: processes that speak to each other; one alone registers nothing.
        limit: bytes; None: this process's.
    """
    if limit is None:
        limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if ranks > 1 and limit != resource.RLIM_INFINITY:
        log.warning(
            "%d ranks may lock %d KiB of memory each (ulimit -l): NCCL over a network adapter needs"
            " it unlimited, LimitMEMLOCK=infinity of the node's container runtime",
            ranks,
            limit >> 10,
        )
