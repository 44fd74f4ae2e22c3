"""Another API server at the address of one that is gone: its certificate is no one's we trust."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit


@contextmanager
def stranger_at(address: str, folder: Path) -> Iterator[None]:
    """Listen with a certificate of its own at `https://host:port` until the end."""
    place = urlsplit(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_certificate(folder))
    assert place.hostname is not None, address
    with socket.create_server((place.hostname, place.port or 443), backlog=64) as listener:
        listener.settimeout(0.2)
        stop = threading.Event()
        thread = threading.Thread(target=_answer, args=(listener, context, stop))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=10)


def _answer(listener: socket.socket, context: ssl.SSLContext, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(OSError):  # the client refuses the certificate, or no one came
            connection, _ = listener.accept()
            connection.settimeout(2)
            with context.wrap_socket(connection, server_side=True):
                pass


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate that signs itself, and its key."""
    certificate, key = folder / "stranger.crt", folder / "stranger.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=stranger", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key
