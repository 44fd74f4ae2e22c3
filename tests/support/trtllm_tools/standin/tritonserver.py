"""tritonserver with TensorRT-LLM's backend, as its supervisor sees it: ready at once, idle.

It writes its process id into `MM_RECORDED_PIDS/RANK`. Standard library only.
"""

import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from arguments import refuse

DEADLINE_SECONDS = 120.0
"""A rank outlives its mpirun; it outlives no test run."""


def main(program: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    reported = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    if not Path(reported.get("model-repository", "")).is_dir():
        refuse(f"{program}: failed to stat {reported.get('model-repository')}")
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    # No one queries the others, whose ports no test has set aside.
    for name in ("http", "metrics") if rank == "0" else ():
        server = ThreadingHTTPServer(("127.0.0.1", int(reported[f"{name}-port"])), Answers)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    Path(os.environ["MM_RECORDED_PIDS"], rank).write_text(str(os.getpid()))
    signal.sigtimedwait({signal.SIGTERM}, DEADLINE_SECONDS)


class Answers(BaseHTTPRequestHandler):
    """Whatever is queried, the answer is an empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's)
        """Keep quiet."""
