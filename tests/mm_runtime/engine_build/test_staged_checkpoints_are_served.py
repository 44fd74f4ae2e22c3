"""What `mmctl plan -o commands` prints starts a server on the staged checkpoint, word for word."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm_ctl.commands.plan import as_commands
from support.cases import cases
from support.images import data_url, encode, plain_image
from support.ports import free_ports
from support.staging_sites import StagingSite, staging_site
from support.trtllm_tools.install import Tools, install

START_SECONDS = 120
REQUEST_SECONDS = 60
VERSION = "1.1.0"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return install(tmp_path_factory.mktemp("tools") / VERSION, VERSION)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> StagingSite:
    site = staging_site(tmp_path_factory.mktemp("staged"), version=VERSION)
    site.build()
    return site


def prepared(folder: Path, site: StagingSite) -> Path:
    assert site.planned.serve is not None
    where = folder / "pod"
    link = where / site.planned.serve.checkpoint
    link.parent.mkdir(parents=True)
    link.symlink_to(site.staged)
    return where


@contextlib.contextmanager
def started(script: str, where: Path, tools: Tools) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **tools.environment(os.environ["PATH"])}
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=where,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(START_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def query(port: int, path: str, body: object = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"}
    )
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310
                return answer.status, answer.read()
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_the_printed_commands_serve(tmp_path: Path, tools: Tools, site: StagingSite) -> None:
    (port,) = free_ports(1)
    script = as_commands(site.planned).replace("--port 8000", f"--port {port}")
    where = prepared(tmp_path, site)
    with started(script, where, tools):
        assert query(port, "/health") == (200, b"")
        models = json.loads(query(port, "/v1/models")[1])
        assert [model["id"] for model in models["data"]] == ["qwen2-vl"]
        url = data_url(encode(plain_image()))
        part = {"type": "image_url", "image_url": {"url": url}}
        body = {"model": "qwen2-vl", "messages": [{"role": "user", "content": [part]}]}
        answer = json.loads(query(port, "/v1/chat/completions", body)[1])
    message = answer["choices"][0]["message"]["content"]
    assert message == "A recorded answer about 1 images."


@cases(
    "edit code words",
    {
        "flag": (("--max_seq_len", "--max_sequence"), 2, "unrecognized"),
        "abbreviation": (("--max_seq_len", "--max_seq"), 2, "unrecognized"),
        "choice": (("--backend pytorch", "--backend torch"), 2, "invalid choice"),
        "field": (("max_input_len:", "max_inputs:"), 1, "Extra inputs are not"),
        "checkpoint": (("models/qwen2-vl", "models/other"), 1, "is no folder"),
    },
)
def test_the_recorded_server_is_strict(
    tmp_path: Path, tools: Tools, site: StagingSite, *, edit: tuple[str, str], code: int, words: str
) -> None:
    script = as_commands(site.planned)
    assert edit[0] in script
    with started(script.replace(*edit), prepared(tmp_path, site), tools) as process:
        output, _ = process.communicate(timeout=START_SECONDS)
    assert code == process.returncode
    assert words in output.decode()
