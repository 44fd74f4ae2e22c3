"""A name server of loopback that knows no name, and never answers for some; a process's own.

libc queries servers of /etc/resolv.conf only, at port 53. So a process that is to query this one
gets a mount namespace, in which that file is another: no one else sees it, and it goes with the
process.
"""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SILENT = "silent.example"
"""Nothing is answered to questions about names below it."""

_PORT = 53
_REFUSED_NAME = 0x8183
"""Flags of an answer: recursion as requested, and NXDOMAIN."""
_HEADER_BYTES = 12
_SCRIPT = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


@dataclass(frozen=True)
class NameServer:
    """A name server, and the file that leads to it.

    Attributes:
        requested: names below `SILENT`, as often as they came.
    """

    resolv_conf: Path
    requested: list[str]

    def used_by(self, command: Sequence[str]) -> list[str]:
        """Return the command of a process that queries this server; its process id stays."""
        namespace = ("unshare", "--mount", "--propagation", "private")
        return [*namespace, "sh", "-c", _SCRIPT, str(self.resolv_conf), *command]


@contextmanager
def name_server(folder: Path) -> Iterator[NameServer | None]:
    """Answer names while the block runs.

    Yields:
        None where this user may listen at no port below 1024.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        address = _bound(listening)
        if address is None:
            yield None
            return
        served = NameServer(folder / "resolv.conf", [])
        served.resolv_conf.write_text(f"nameserver {address}\n")
        thread = threading.Thread(target=_answer, args=(listening, served.requested), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            listening.sendto(b"", (address, _PORT))  # the thread's end
            thread.join(60)


def _bound(listening: socket.socket) -> str | None:
    """Bind a free address of loopback's 127.0.0.0/8; return it."""
    for last in range(2, 255):
        address = f"127.53.53.{last}"
        try:
            listening.bind((address, _PORT))
        except PermissionError:
            return None
        except OSError:  # another session's
            continue
        return address
    return None


def _answer(listening: socket.socket, requested: list[str]) -> None:
    while True:
        question, whom = listening.recvfrom(4096)
        if not question:
            return
        name = _name(question)
        if name.endswith(SILENT):
            requested.append(name)
        else:
            listening.sendto(_unknown(question), whom)


def _name(question: bytes) -> str:
    labels = []
    at = _HEADER_BYTES
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels)


def _unknown(question: bytes) -> bytes:
    """Return the answer that there is no such name: the question, with other flags and counts."""
    counts = question[4:6] + bytes(6)
    end = _HEADER_BYTES + len(_name(question)) + 2 + 4  # labels, the root, type and class
    head = question[:2] + _REFUSED_NAME.to_bytes(2, "big") + counts
    return head + question[_HEADER_BYTES:end]
