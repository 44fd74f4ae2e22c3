"""`mm-lab bench` against the real gateway, and against servers that misbehave."""

import argparse
import asyncio
import json
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from mm_lab.cli import main as mm_lab
from mm_lab.commands import bench
from support.bench_reports import RUN_SECONDS, report_of
from support.cases import cases
from support.gateways import MODEL, Running, serve, toy_gateway
from support.http_servers import Exchange, serve_local
from support.ports import free_ports
from support.scripted_engine import ScriptedEngine


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    # Room for all: a slot is free a moment after the last byte, and a busy machine answers late.
    toy = toy_gateway(tmp_path, ScriptedEngine(), max_concurrency=8, max_queue_size=100)
    async with serve(toy) as gateway:
        yield gateway


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(["--users", "8"], id="closed-loop"),
        pytest.param(["--rate", "20", "--warm-up", "500ms"], id="poisson", marks=pytest.mark.slow),
    ],
)
async def test_the_gateway_is_loaded(
    running: Running, load: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, reported = await report_of(
        capsys,
        f"{running.url}/v1",
        *(*load, "--duration", "2s", "--images", "0:1,1:1"),
        *("--picture-size", "56", "--slo", "ttft=60s", "--slo", "e2e=60s"),
    )

    assert (reported.model, reported.errors) == (MODEL, {})
    assert reported.answered == reported.requests > 0
    assert reported.goodput_share == 1.0
    assert reported.output_tokens_per_second == pytest.approx(3 * reported.answered_per_second)
    for latencies in (reported.everything, reported.text_only, reported.with_images):
        assert 0 < latencies.time_to_first_token.p50 <= latencies.end_to_end.p50
    assert reported.everything.inter_token is not None


async def test_progress_is_reported_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "PROGRESS_SECONDS", 0.05)
    reported = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        while not reported.is_set():  # the first request is under way until the run has said so
            await asyncio.sleep(0.05)
            if "0 answered, 0 failed, 1 under way" in capsys.readouterr().err:
                reported.set()
        await exchange.answer(200, events(TOKEN))

    parser = argparse.ArgumentParser()
    bench.configure(parser)
    async with serve_local(answer) as server, asyncio.timeout(RUN_SECONDS):
        address = f"http://127.0.0.1:{server.port}/v1"
        options = ["--model", "m", "--users", "1", "--duration", "300ms"]
        assert await bench.run(parser.parse_args([address, *options])) == 0

    assert reported.is_set()


async def test_a_trace_is_replayed(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "seconds,images\n" + "".join(f"{number},{number % 3}\n" for number in range(9))
    )
    _, reported = await report_of(
        capsys, f"{running.url}/v1", "--trace", str(trace), "--speed", "10", "--duration", "2s"
    )

    assert (reported.requests, reported.answered) == (9, 9)
    assert reported.images_per_second == pytest.approx(9 / 2)


async def test_an_open_loop_does_not_wait_for_a_slow_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Requests go out when due although none was answered, also where few files may be open."""
    many = asyncio.Barrier(20)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def slow(exchange: Exchange) -> None:
        if len(server.exchanges) <= many.parties:
            await many.wait()
        await exchange.answer(200, events(TOKEN))

    async with serve_local(slow) as server:
        files = psutil.Process().num_fds() + 10
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
        _, reported = await report_of(
            capsys,
            f"http://127.0.0.1:{server.port}/v1",
            *("--model", "m", "--rate", "50", "--duration", "1s"),
        )

    assert reported.errors == {}
    assert reported.answered == reported.requests == len(server.exchanges) > many.parties


@pytest.mark.slow
async def test_what_is_not_sent_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With room for two requests the others are failures by name, not silence; so is no answer."""
    trace = tmp_path / "trace.csv"
    trace.write_text("seconds\n" + "0\n" * 9)  # due together: none is answered in between

    async def silent(_: Exchange) -> None:
        await asyncio.sleep(RUN_SECONDS)

    async with serve_local(silent) as server:
        _, reported = await report_of(
            capsys,
            f"http://127.0.0.1:{server.port}/v1",
            *("--model", "m", "--trace", str(trace), "--timeout", "500ms"),
            *("--most-in-flight", "2"),
        )

    assert reported.errors == {"not-sent": 7, "timeout": 2}


def events(*bodies: object, done: bool = True) -> bytes:
    text = "".join(f"data: {json.dumps(body)}\n\n" for body in bodies)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


TOKEN = {"choices": [{"delta": {"content": "a"}}]}


@cases(
    "status body kind",
    {
        "refused": (429, b"{}", "http-429"),
        "down": (503, b"", "http-503"),
        "no-done": (200, events(TOKEN, done=False), "cut"),
        "garbage": (200, b"data: {not json\n\n", "cut"),
        "a-text-for-an-event": (200, events("hello"), "cut"),
        "a-list-for-an-event": (200, events(["a"]), "cut"),
        "a-text-for-a-choice": (200, events({"choices": ["a"]}), "cut"),
        "a-word-of-tokens": (200, events({"usage": {"prompt_tokens": "x"}}), "cut"),
        "no-text": (200, b"data: \xff\n\n", "cut"),
        "an-endless-line": (200, b"data: " + b"a" * 2**20, "cut"),
        "no-token": (200, events(), "empty"),
        "error": (200, events(TOKEN, {"error": {}}, done=False), "error-event"),
    },
)
async def test_failures_are_reported_by_kind(
    status: int, body: bytes, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.answer(status, body)

    async with serve_local(answer) as server:
        code, reported = await report_of(
            capsys,
            f"http://127.0.0.1:{server.port}/v1",
            *("--model", "m", "--users", "1", "--duration", "300ms"),
        )

    assert list(reported.errors) == [kind]
    assert (code, reported.answered) == (1, 0)


async def test_a_closed_port(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    _, reported = await report_of(
        capsys, f"http://127.0.0.1:{port}/v1", "--model", "m", "--users", "1", "--duration", "1ms"
    )

    assert list(reported.errors) == ["connect"]


async def test_the_token_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(bench.TOKEN_VARIABLE, "secret")

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(200, events(TOKEN))

    async with serve_local(answer) as server:
        code, _ = await report_of(
            capsys,
            f"http://127.0.0.1:{server.port}/v1",
            *("--model", "m", "--users", "1", "--duration", "1ms"),
        )

    assert code == 0
    assert {exchange.headers["authorization"] for exchange in server.exchanges} == {"Bearer secret"}


@cases(
    "options words",
    {
        "no-user": (["--users", "0"], "--users is 0: it must be above zero"),
        "rate": (["--rate", "-1"], "--rate is -1.0: it must be above zero"),
        "no-number": (["--rate", "nan"], "--rate is nan: it must be above zero"),
        "endless": (["--rate", "inf"], "--rate is inf: it must be above zero"),
        "no-trace": (["--trace", "none.csv"], "none.csv cannot be read as a CSV"),
        "folder": (["--trace", "."], ". cannot be read as a CSV"),
        "duration": (["--users", "1", "--duration", "soon"], "--duration: 'soon'"),
        "slo": (["--users", "1", "--slo", "speed=1s"], "--slo speed=1s: write"),
        "images": (["--users", "1", "--images", "some"], "'some' is not a list"),
        "image": (["--users", "1", "--picture", "none.png"], "No such file"),
        "old-page": (["--users", "1", "--html", __file__], "it exists already"),
        "old-csv": (["--users", "1", "--csv", __file__], "it exists already"),
        "no-folder": (["--users", "1", "--html", "no/page.html"], "directory: name a file"),
        "long-name": (["--users", "1", "--html", "x" * 300], "name too long: name a file"),
        "one-file-twice": (["--users", "1", "--html", "x", "--csv", "x"], "name two files"),
    },
)
def test_wrong_options_are_reported(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mm_lab(["bench", "http://127.0.0.1:1/v1", "--model", "m", *options]) == 2
    assert words in capsys.readouterr().err


def test_an_address_without_a_scheme_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be no URL, and thousands of requests would fail for that."""
    assert mm_lab(["bench", "127.0.0.1:1/v1", "--model", "m", "--users", "1"]) == 2
    assert "127.0.0.1:1/v1 is not an address: write it with http://" in capsys.readouterr().err


async def test_users_do_not_hammer_a_dead_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """After a failure a user takes a breath: a second has room for ten of them, not thousands."""
    (port,) = free_ports(1)
    _, reported = await report_of(
        capsys, f"http://127.0.0.1:{port}/v1", "--model", "m", "--users", "2", "--duration", "1s"
    )

    assert 0 < reported.requests <= 20


def test_a_wrong_address_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert mm_lab(["bench", "http://127.0.0.1:1/v1", "--users", "1"]) == 2
    assert "gives no list of models" in capsys.readouterr().err
