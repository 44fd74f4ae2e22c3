"""An address in front of an API server, behind which it can disappear, hang, or be another one."""

import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from mm_devcluster.cluster import ClusterInfo
from support.certificates import signed_by_itself

_CHUNK = 64 * 1024


class Behaviour(StrEnum):
    """What a client of the address meets."""

    FORWARDS = "forwards"
    """The API server."""
    GONE = "gone"
    """No one: connections are refused."""
    HANGS = "hangs"
    """A server that accepts every connection and never answers, on old connections neither."""
    STRANGE = "strange"
    """A server whose certificate no one signed that the client trusts."""


class FickleServer:
    """The address. Connections are kept open where the behaviour changes to `HANGS`, else cut."""

    def __init__(self, server: str, folder: Path) -> None:
        parts = urlsplit(server)
        self._target = (parts.hostname or "", parts.port or 443)
        self._behaviour = Behaviour.FORWARDS
        self._open: set[socket.socket] = set()
        self.connections = 0
        """How many were accepted since the start."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*signed_by_itself(folder, "strange"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def become(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        if behaviour is not Behaviour.HANGS:
            self._cut()
        if behaviour is Behaviour.GONE:
            self.close()

    def close(self) -> None:
        # A thread that is blocked in accept() keeps the port open beyond close().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client = listener.accept()[0]
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        with client, contextlib.suppress(OSError):
            match self._behaviour:
                case Behaviour.FORWARDS:
                    self._forward(client)
                case Behaviour.HANGS:
                    while client.recv(_CHUNK):
                        pass
                case Behaviour.STRANGE:
                    with self._context.wrap_socket(client, server_side=True) as secured:
                        secured.recv(_CHUNK)
        self._open.discard(client)

    def _forward(self, client: socket.socket) -> None:
        with socket.create_connection(self._target, timeout=60) as server:
            server.settimeout(None)
            self._open.add(server)
            back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
            back.start()
            self._copy(client, server)
            back.join(60)
            self._open.discard(server)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if self._behaviour is Behaviour.FORWARDS:
                    target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextmanager
def fickle_server(cluster: ClusterInfo, folder: Path) -> Iterator[tuple[FickleServer, Path]]:
    """Put an address in front of a cluster's API server; yield it with a kubeconfig for it."""
    kubeconfig = folder / "fickle.kubeconfig"
    shutil.copy(cluster.kubeconfig, kubeconfig)
    document = yaml.safe_load(kubeconfig.read_text())
    (entry,) = document["clusters"]
    server = FickleServer(entry["cluster"]["server"], folder)
    entry["cluster"]["server"] = f"https://127.0.0.1:{server.port}"
    kubeconfig.write_text(yaml.dump(document))
    try:
        yield server, kubeconfig
    finally:
        server.close()
