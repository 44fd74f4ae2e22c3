"""A relay on loopback in front of an encoder that ends within an answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

SECONDS = 30.0
CHUNK = 4096


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def cut_relay(address: str, length: int) -> Iterator[str]:
    """Relay connections while the block runs; yield the address."""
    host, _, port = address.rpartition(":")

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            with (
                suppress(OSError),  # a side that has ended
                client,
                socket.create_connection((host, int(port)), SECONDS) as server,
            ):
                forward = threading.Thread(target=_copy, args=(client, server), daemon=True)
                forward.start()
                _copy(server, client, length)
                client.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)
                forward.join(SECONDS)

    with _Server(("127.0.0.1", 0), Handler) as relay:
        thread = threading.Thread(target=relay.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()
            thread.join(SECONDS)


def _copy(source: socket.socket, target: socket.socket, length: int | None = None) -> None:
    """Copy until the source ends, or so many bytes."""
    left = length
    with suppress(OSError):
        while left is None or left > 0:
            piece = source.recv(CHUNK if left is None else min(CHUNK, left))
            if not piece:
                return
            target.sendall(piece)
            left = None if left is None else left - len(piece)
