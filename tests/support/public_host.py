"""In a network namespace of its own: a host with a public address that redirects to private ones.

Run as a script, inside `unshare --net`: prints what becomes of each URL of the command line, one
line each, as the fetcher of servers and gateways says it.
"""

import asyncio
import fcntl
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher

ADDRESS = "93.184.216.34"
"""Public, and no one's in here."""

REDIRECTS = {
    "/private": "http://10.1.2.3/x.png",
    "/metadata": "http://169.254.169.254/latest/meta-data/",
    "/loopback": "http://127.0.0.1/x.png",
    "/mapped": "http://[::ffff:10.1.2.3]/x.png",
}
IMAGE = b"an image"
POLICY = FetchPolicy(
    allowed_hosts=(), allow_private_networks=False, timeout_seconds=30, max_bytes=1000
)

_SIOCSIFADDR, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8916, 0x8913, 0x8914
_IFF_UP = 1


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302 if self.path in REDIRECTS else 200)
        if self.path in REDIRECTS:
            self.send_header("Location", REDIRECTS[self.path])
        self.send_header("Content-Length", "0" if self.path in REDIRECTS else str(len(IMAGE)))
        self.end_headers()
        if self.path not in REDIRECTS:
            self.wfile.write(IMAGE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _bring_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, address in (("lo", "127.0.0.1"), ("lo:1", ADDRESS)):
            requested = struct.pack(
                "16sH2s4s8s", name.encode(), socket.AF_INET, b"", socket.inet_aton(address), b""
            )
            fcntl.ioctl(control, _SIOCSIFADDR, requested)
        flags = struct.pack("16sh", b"lo", 0)
        (found,) = struct.unpack("16xh", fcntl.ioctl(control, _SIOCGIFFLAGS, flags))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", found | _IFF_UP))


async def _reported(path: str) -> str:
    try:
        return (await ImageFetcher(POLICY).fetch(f"http://{ADDRESS}{path}")).decode()
    except FetchRefusedError as error:
        return str(error)


def main() -> None:
    _bring_up()
    with ThreadingHTTPServer((ADDRESS, 80), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for path in sys.argv[1:]:
            sys.stdout.write(asyncio.run(_reported(path)) + "\n")
        server.shutdown()


if __name__ == "__main__":
    main()
