"""The stub's own threads never free what a model has read: they would do it without the GIL."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import httpx
import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.launch.arguments import ServerOptions, server_argv, server_environment
from mm_runtime.launch.backends import copy_backends, find_installation
from mm_runtime.settings import Ports
from support.ended import end
from support.eventually import eventually
from support.ports import free_ports
from support.tied import tied

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(240)]

MODELS = Path(__file__).parent / "freed_answers"
POOL_BYTES = 1 << 20
STOP_SECONDS = 30
ANSWERS, RESPONSES = 200, 5
"""Two of five answers were freed by the wrong thread before they were kept."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    installation = find_installation()
    copy_backends(installation, tmp_path / "backends")
    http, grpc, metrics = free_ports(3)
    options = ServerOptions(
        repository=copytree(MODELS, tmp_path / "repository"),
        backends=tmp_path / "backends",
        ports=Ports(http=http, grpc=grpc, metrics=metrics),
        pools=MemoryPools(cuda_bytes=POOL_BYTES, pinned_bytes=POOL_BYTES, shm_bytes=POOL_BYTES),
        exit_seconds=5,
        secret="closed",
    )
    url = f"http://127.0.0.1:{http}"
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            tied(server_argv(installation, options)),
            env=server_environment(installation, os.environ),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: _ready(url))
        yield url
    finally:
        end(process, STOP_SECONDS)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v2/health/ready", timeout=5).is_success
    except httpx.TransportError:
        return False


def test_every_array_is_freed_by_the_thread_that_read_it(server: str) -> None:
    body = {"inputs": [{"name": "COUNT", "shape": [1], "datatype": "INT32", "data": [RESPONSES]}]}
    for _ in range(ANSWERS):
        answer = httpx.post(f"{server}/v2/models/reader/infer", json=body, timeout=30)
        assert answer.is_success, answer.text
        assert answer.json()["outputs"][0]["data"] == [0]
