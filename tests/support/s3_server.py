"""A real S3 server on loopback: versitygw over a directory, one process for a test session."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from mm_devcluster.binaries import ensure_binaries
from mm_runtime.base.buckets import open_bucket
from support.ports import free_ports
from support.tied import tied

KEY, SECRET = "tests", "only-for-tests"
START_SECONDS = 120.0


@dataclass
class S3Server:
    """A server that runs, or was stopped to see what its clients do."""

    program: Path
    directory: Path
    port: int
    host: str = "127.0.0.1"
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def start(self) -> None:
        self.process = subprocess.Popen(
            tied(
                [
                    self.program,
                    "--port",
                    f"{self.host}:{self.port}",
                    "--quiet",
                    "posix",
                    self.directory,
                ]
            ),
            env={"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError:
                assert self.process.poll() is None, "versitygw ended"
                assert time.monotonic() < deadline, "versitygw does not listen"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)
            self.process = None

    def bucket(self, name: str) -> S3Store:
        # The server's own way of keeping a bucket: a directory below its root.
        (self.directory / name).mkdir()
        return open_bucket(name, "STORE", self.environment)

    def upload(self, source: Path, bucket: str, prefix: str) -> S3Store:
        client = self.bucket(bucket)
        for path in sorted(source.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(source).as_posix()}".lstrip("/")
                obstore.put(client, key, path)
        return client


@contextmanager
def serving_s3(directory: Path, host: str = "127.0.0.1") -> Iterator[S3Server]:
    program = ensure_binaries(["versitygw"])["versitygw"]
    (port,) = free_ports(1)
    directory.mkdir(exist_ok=True)
    server = S3Server(program, directory, port, host)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_s3(tmp_path_factory.mktemp("s3") / "root") as server:
        yield server
