"""`make demo-bench` sends a guide's requests with `mm-lab bench`, and returns its exit code."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mm_devcluster.demo import bench
from support.gateways import serve, toy_gateway
from support.scripted_engine import ScriptedEngine


async def code_of(address: str, monkeypatch: pytest.MonkeyPatch) -> int:
    @contextmanager
    def forwarded(*_: object) -> Iterator[str]:
        yield address

    found = SimpleNamespace(name="dev", kubeconfig=Path(), kubectl=Path())
    monkeypatch.setattr(bench.cluster, "info", lambda _: found)
    monkeypatch.setattr(bench, "forwarded", forwarded)
    monkeypatch.setattr(sys, "argv", ["demo-bench"])
    return await asyncio.to_thread(bench.main)


async def test_the_table_of_the_guides_requests_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    toy = toy_gateway(tmp_path, ScriptedEngine(), max_concurrency=8, max_queue_size=100)
    async with serve(toy) as gateway:
        code = await code_of(gateway.url, monkeypatch)

    printed = capfd.readouterr().out
    assert code == 0
    assert "dashinfer: closed loop, 10 users, 100 requests" in printed
    assert "100 due, 100 answered" in printed


async def test_the_exit_code_is_that_of_the_load(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await code_of("http://127.0.0.1:1", monkeypatch) == 2
    assert "gives no list of models" in capfd.readouterr().err
