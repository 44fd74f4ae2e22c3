"""The encoders there are now: every address of the hosts in the plan, looked up again and again.

A headless Service has one address for each ready pod. A look-up may hang for seconds, so it never
happens on the way of a request.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Sequence

from mm_api.hosts import host_port

logger = logging.getLogger(__name__)

LOOKUP_SECONDS = 1.0
"""Between two look-ups: one small question to the cluster's DNS, which keeps answers for 5 s
(CoreDNS, plugin kubernetes: ttl)."""


class Hosts:
    """Looks hosts (HOST:PORT) up in a thread of its own for as long as the process lives."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._current: tuple[str, ...] = ()
        self._resolve()
        threading.Thread(target=self._run, name="encoder-hosts", daemon=True).start()

    @property
    def addresses(self) -> tuple[str, ...]:
        """IP:PORT of every encoder as last looked up, sorted."""
        return self._current

    def _run(self) -> None:
        while True:
            time.sleep(LOOKUP_SECONDS)
            self._resolve()

    def _resolve(self) -> None:
        addresses = tuple(sorted({one for name in self._names for one in _addresses(name)}))
        if addresses != self._current:
            logger.info("vision encoders: %s", ", ".join(addresses) or "none")
        self._current = addresses


def _addresses(name: str) -> list[str]:
    """Return the addresses of one host; none when it is not known, or has no ready pod."""
    host, _, port = name.rpartition(":")
    with contextlib.suppress(OSError):
        rows = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        return [host_port(str(row[4][0]), port) for row in rows]
    return []
