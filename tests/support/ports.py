"""Ports for servers that bind them later, which no other test of this machine takes meanwhile.

Port 0 will not do: tritonserver binds seconds after it is given, and until then the kernel may give
the port to another socket of the other lane ("already in use", seen in entire runs). So ports come
from below the kernel's own range, and a name among Linux's abstract sockets is held for each until
this process ends.
"""

import atexit
import random
import socket

RANGE = range(11_000, 16_000)
"""Below those of supervisors (`mm_runtime.launch.exposition`), development clusters (21000) and the
kernel (32768)."""

_held: list[socket.socket] = []


@atexit.register
def _release() -> None:
    """Close the names: sockets that an interpreter's end collects are reported as unclosed."""
    for name in _held:
        name.close()


def free_ports(count: int) -> list[int]:
    """Return ports that are this process's alone, all different."""
    found: list[int] = []
    for port in random.SystemRandom().sample(RANGE, len(RANGE)):
        if len(found) == count:
            return found
        if _claim(port):
            found.append(port)
    raise RuntimeError(f"{count} ports wanted of {RANGE}, {len(found)} are free")


def _claim(port: int) -> bool:
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0multimodal-operator-test-port-{port}")
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        name.close()
        return False
    _held.append(name)
    return True
