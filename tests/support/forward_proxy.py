"""A real forward proxy on loopback, which notes what went through it: requests and tunnels."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from support.http_servers import served_in_threads

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding"})
SECONDS = 30.0


@dataclass
class ForwardProxy:
    """Where it listens, and the hosts that were requested of it."""

    url: str = ""
    hosts: list[str] = field(default_factory=list)
    tunnels: list[str] = field(default_factory=list)


@contextmanager
def forward_proxy(
    names: Mapping[str, str] | None = None, certificate: tuple[Path, Path] | None = None
) -> Iterator[ForwardProxy]:
    proxy = ForwardProxy()
    known = {} if names is None else names

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            target = urlsplit(self.path)
            proxy.hosts.append(target.netloc)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            upstream = HTTPConnection(known.get(target.netloc, target.netloc), timeout=SECONDS)
            path = f"{target.path or '/'}{'?' + target.query if target.query else ''}"
            sent = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
            upstream.request(self.command, path, body or None, sent)
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {*_HOP_BY_HOP, "content-length"}:
                    self.send_header(name, value)
            length = answer.getheader("content-length") if self.command == "HEAD" else None
            self.send_header("content-length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        def do_CONNECT(self) -> None:
            proxy.tunnels.append(self.path)
            host, _, port = known.get(self.path, self.path).rpartition(":")
            if host.endswith("refused.example"):
                self.send_error(403)
                return
            with socket.create_connection((host, int(port)), SECONDS) as upstream:
                self.send_response(200)
                self.end_headers()
                # One reading end of the two in a thread; both end when either side closes.
                back = threading.Thread(target=_pour, args=(upstream, self.connection), daemon=True)
                back.start()
                _pour(self.connection, upstream)
                back.join(SECONDS)
            self.close_connection = True

        do_GET = _forward  # noqa: N815 - http.server's names
        do_HEAD = _forward  # noqa: N815
        do_PUT = _forward  # noqa: N815

    with served_in_threads(Handler, certificate=certificate) as proxy.url:
        yield proxy


def _pour(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65_536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other side has closed
