"""A line to a server that can be cut, held or narrowed while clients use it."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

BLOCK_BYTES = 16 * 1024
LISTEN_POLL_SECONDS = 0.2


@dataclass
class Line:
    """What becomes of bytes on their way; changes count at once, for open connections too."""

    target: tuple[str, int]
    host: str
    port: int = 0
    cut: bool = False
    """Connections are closed before a byte: what a client sees of a server that is down."""
    held: bool = False
    """Connections are taken and nothing is answered, as by a server that hangs."""
    bytes_a_second: float | None = None
    """Of each connection and direction; None: as fast as it goes."""
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    def accept(self, listener: socket.socket) -> None:
        listener.settimeout(LISTEN_POLL_SECONDS)
        while not self._over.is_set():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def take_down(self) -> None:
        self._over.set()

    def _join(self, client: socket.socket) -> None:
        with client:
            if self.cut:
                return
            with suppress(OSError), socket.create_connection(self.target, timeout=10) as server:
                back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
                back.start()
                self._pass(client, server)
                back.join()

    def _pass(self, reader: socket.socket, writer: socket.socket) -> None:
        # No time-out of the sockets: it would count for `sendall`, too, and cut what is only slow.
        reader.settimeout(None)
        with suppress(OSError):
            while not self._over.is_set() and not self.cut:
                if self.held:
                    time.sleep(LISTEN_POLL_SECONDS)
                    continue
                if not select.select([reader], [], [], LISTEN_POLL_SECONDS)[0]:
                    continue
                block = reader.recv(BLOCK_BYTES)
                if not block:
                    break
                if self.bytes_a_second:
                    time.sleep(len(block) / self.bytes_a_second)
                writer.sendall(block)
        for end in (reader, writer):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def line_to(host: str, port: int) -> Iterator[Line]:
    line = Line((host, port), host)
    with socket.create_server((host, 0)) as listener:
        line.port = listener.getsockname()[1]
        thread = threading.Thread(target=line.accept, args=(listener,), daemon=True)
        thread.start()
        try:
            yield line
        finally:
            line.take_down()
            thread.join(timeout=10)
