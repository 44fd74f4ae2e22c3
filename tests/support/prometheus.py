"""The real Prometheus of the distribution: its checker, and a server of a test's own."""

import http.client
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mm_devcluster import packages
from support.ended import logged

START_SECONDS = 120.0  # ready in 0.2 s on a quiet machine
REQUEST_SECONDS = 60.0


def promtool(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    packages.install(packages.MONITORING_PACKAGES)
    return subprocess.run(
        ["promtool", *arguments],
        input=stdin,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    address: str
    log: Path
    tls: ssl.SSLContext | None = None
    """How https is trusted."""
    authorization: str = ""

    def open(self, path: str) -> http.client.HTTPResponse:
        """Send a GET request as someone whom the server knows."""
        request = urllib.request.Request(f"{self.address}{path}")  # noqa: S310
        if self.authorization:
            request.add_header("Authorization", self.authorization)
        answer: http.client.HTTPResponse = urllib.request.urlopen(  # noqa: S310
            request, timeout=REQUEST_SECONDS, context=self.tls
        )
        return answer

    def api(self, path: str, **parameters: str) -> Any:
        try:
            with self.open(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}") as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        return list(self.api("query", query=expression)["result"])

    def ready(self) -> bool:
        try:
            with self.open("/-/ready") as reply:
                return reply.status == 200
        except OSError:
            return False


@contextmanager
def running_prometheus(
    folder: Path,
    config: dict[str, Any],
    *,
    port: int,
    address: str = "127.0.0.1",
    arguments: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
    authorization: str = "",
) -> Iterator[Prometheus]:
    packages.install(packages.MONITORING_PACKAGES)
    file, log = folder / "prometheus.yml", folder / "prometheus.log"
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}:{port}", *arguments]
    scheme = "https" if tls else "http"
    server = Prometheus(f"{scheme}://{address}:{port}", log, tls, authorization)
    with logged(command, log) as process:
        deadline = time.monotonic() + START_SECONDS
        while not server.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"prometheus does not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        yield server
