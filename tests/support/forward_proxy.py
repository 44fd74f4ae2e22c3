"""A real forward proxy on loopback for http:// addresses, which notes what went through it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding"})
SECONDS = 30.0


@dataclass
class ForwardProxy:
    """Where it listens, and the hosts that were requested of it."""

    url: str = ""
    hosts: list[str] = field(default_factory=list)


@contextmanager
def forward_proxy() -> Iterator[ForwardProxy]:
    """Forward requests while the block runs."""
    proxy = ForwardProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            target = urlsplit(self.path)
            proxy.hosts.append(target.netloc)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            upstream = HTTPConnection(target.netloc, timeout=SECONDS)
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

        do_GET = _forward  # noqa: N815 - http.server's names
        do_HEAD = _forward  # noqa: N815
        do_PUT = _forward  # noqa: N815

        def log_message(self, *_arguments: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
