"""A relay on loopback in front of a server, which counts the bytes that come back."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

SECONDS = 30.0


@dataclass
class Relay:
    """Where it listens, and how many bytes clients got."""

    port: int = 0
    bytes_sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def counting_relay(port: int, certificate: tuple[Path, Path] | None = None) -> Iterator[Relay]:
    """Relay connections to a port of 127.0.0.1 while the block runs.

    Args:
        port: the server's.
        certificate: with its key: clients speak TLS with the relay.
    """
    relay = Relay()
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # a client that refuses the certificate, or has ended
                client = context.wrap_socket(self.request, server_side=True) if context else None
                self._relay(client or self.request)

        def _relay(self, client: socket.socket) -> None:
            with client, socket.create_connection(("127.0.0.1", port), SECONDS) as server:
                back = threading.Thread(target=self._back, args=(server, client), daemon=True)
                back.start()
                while piece := client.recv(65_536):
                    server.sendall(piece)
                server.shutdown(socket.SHUT_WR)
                back.join(SECONDS)

        def _back(self, server: socket.socket, client: socket.socket) -> None:
            with suppress(OSError):
                while piece := server.recv(65_536):
                    with relay.lock:
                        relay.bytes_sent += len(piece)
                    client.sendall(piece)

    with _Server(("127.0.0.1", 0), Handler) as server:
        relay.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            server.shutdown()
            thread.join()
