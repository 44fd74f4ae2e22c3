"""Killed processes, servers that hang and full disks cost time, never an engine's bytes."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from mm_api.contract import TIME_LIMIT_VARIABLE, ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult
from mm_runtime.base.durable import sha256
from mm_runtime.cli import main
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands import fetch
from mm_runtime.errors import InspectInterruptedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.inspect.source import inspect_source
from mm_runtime.sources.address import HubAddress
from mm_runtime.sources.origin import opened
from support.build_plans import build_plan
from support.build_sites import text_only
from support.ended import wait_until_gone
from support.eventually import eventually
from support.hub_server import COMMIT, REPOSITORY, Hub

PINNED = f"hf://{REPOSITORY}@{COMMIT}"
WEIGHTS = "model.safetensors"
BEFORE_THE_KILL = 11_000_000
"""Above the 10 MiB that the client passes on at a time: something is on the disk by then."""
SECONDS = 60.0


def arguments(hub: Hub, tmp_path: Path, store: Path) -> tuple[list[str], BuildPaths]:
    """Return the command line of a build of the Hub's checkpoint, and where it works."""
    plan = text_only(build_plan(inspect(hub.directory, InspectOptions())))
    (tmp_path / "plan.json").write_text(plan.to_json())
    where = ["--plan", str(tmp_path / "plan.json"), "--source", PINNED, "--store", str(store)]
    return ["build", *where], BuildPaths(store, plan.fingerprint)


@pytest.mark.slow
def test_a_build_out_of_time_names_its_step(hub: Hub, tmp_path: Path) -> None:
    """A download that stands still: the report says what ran, and that another try is worth it."""
    store, word = tmp_path / "store", tmp_path / "termination-log"
    store.mkdir()
    command, _ = arguments(hub, tmp_path, store)
    hub.pause_after = BEFORE_THE_KILL
    done = subprocess.run(
        [sys.executable, "-m", "mm_runtime", *command, "--termination-log", str(word)],
        env={**os.environ, **hub.environment, TIME_LIMIT_VARIABLE: "6"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    hub.resumed.set()
    assert done.returncode == ExitCode.TIMED_OUT, done.stderr[-2000:]
    failure = BuildResult.from_json(word.read_bytes()).failure
    assert failure is not None
    assert (failure.step, failure.retryable) == ("fetch", True)


def test_killed_fetch_continues(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL in the middle of the weights takes the step along; the next one requests the rest."""
    store = tmp_path / "store"
    store.mkdir()
    command, paths = arguments(hub, tmp_path, store)
    hub.pause_after = BEFORE_THE_KILL
    process = subprocess.Popen(
        [sys.executable, "-m", "mm_runtime", *command],
        env={**os.environ, **hub.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        partials = eventually(
            lambda: [
                path
                for path in paths.work.rglob(f"{WEIGHTS}.*.partial")
                if path.stat().st_size >= 10 * 1024 * 1024
            ],
            seconds=SECONDS,
        )
        assert partials, "nothing was fetched"
        step = children_of(process.pid)
    finally:
        process.kill()
        process.wait(timeout=SECONDS)
    for one in step:
        wait_until_gone(one)
    hub.pause_after = None
    hub.resumed.set()
    hub.requests.clear()
    for name, value in hub.environment.items():
        monkeypatch.setenv(name, value)
    code = main(command)
    requested = [range_ for method, path, range_ in hub.requests if path == f"/cdn/{WEIGHTS}"]
    assert (ExitCode.OK, [f"bytes={10 * 1024 * 1024}-"]) == (code, requested)
    assert sha256(hub.directory / WEIGHTS) == sha256(paths.engine / "llm" / WEIGHTS)


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@contextmanager
def silent_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_silent_bucket_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the request and says nothing ends with a message, worth another try."""
    monkeypatch.setattr("mm_runtime.base.buckets.RETRIES", 0)
    monkeypatch.setattr("mm_runtime.base.buckets.READ", timedelta(seconds=0.2))
    with silent_server() as endpoint:
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
        }
        with pytest.raises(InspectInterruptedError, match="no answer in time"):
            inspect_source("s3://bucket/x", InspectOptions(), environment)


def test_silent_hub_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mm_runtime.sources.hub.RETRY_DELAYS", ())
    monkeypatch.setattr("mm_runtime.sources.hub.REQUEST_SECONDS", 0.2)
    with silent_server() as endpoint, pytest.raises(InspectInterruptedError, match="Timeout"):
        inspect_source(PINNED, InspectOptions(), {"HF_ENDPOINT": endpoint})


@pytest.mark.root
def test_full_disk_is_reported_before_a_byte_is_fetched(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small tmpfs: both numbers are reported, nothing was fetched, and with room it succeeds."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    store = tmp_path / "small"
    store.mkdir()
    command, paths = arguments(hub, tmp_path, store)
    message = tmp_path / "message"
    for name, value in hub.environment.items():
        monkeypatch.setenv(name, value)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", store], check=True, timeout=30)
    try:
        code = main([*command, "--termination-log", str(message)])
        result = BuildResult.from_json(message.read_text())
        assert result.failure is not None
        assert (code, result.failure.reason) == (
            ExitCode.STORE_NOT_WRITABLE,
            BuildReason.STORE_NOT_WRITABLE,
        )
        size = sum(
            path.stat().st_size for path in hub.directory.glob("*.*") if path.suffix != ".md"
        )
        assert f"the checkpoint needs {size}" in result.failure.message
        assert [path for _, path, _ in hub.requests if path.endswith(".safetensors")] == []
        subprocess.run(["mount", "-o", "remount,size=64m", store], check=True, timeout=30)
        assert main(command) == ExitCode.OK
        assert sha256(hub.directory / WEIGHTS) == sha256(paths.engine / "llm" / WEIGHTS)
    finally:
        subprocess.run(["umount", store], check=True, timeout=30)


def test_progress_is_reported_while_a_file_comes(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One file of many gigabytes moves the percentage too, not only its end."""
    monkeypatch.setattr(fetch, "REPORT_SECONDS", 0.05)
    caplog.set_level(logging.INFO)
    hub.pause_after = BEFORE_THE_KILL
    with (
        opened(HubAddress(REPOSITORY, COMMIT), hub.environment) as origin,
        ThreadPoolExecutor(1) as pool,
    ):
        copies = {name: tmp_path / name for name in origin.sizes}
        fetching = pool.submit(fetch._copy_all, origin, copies)
        reported = eventually(lambda: "10 of 12 MiB, 83 %" in caplog.text, seconds=SECONDS)
        hub.resumed.set()
        digests = fetching.result(timeout=SECONDS)
    assert reported, caplog.text
    assert sha256(hub.directory / WEIGHTS) == digests[WEIGHTS]
