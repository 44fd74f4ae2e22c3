"""`mm-lab bench --grid`: a closed loop of each size, one after another, and their table."""

import argparse
import asyncio
import json

import pytest

from mm_lab.cli import main as mm_lab
from mm_lab.commands import bench
from mm_lab.loadtest.grid import Grid, as_table
from mm_lab.loadtest.report import BenchReport
from support.http_servers import Exchange, serve_local

CHUNK = json.dumps({"choices": [{"index": 0, "text": "das"}]})
USAGE = json.dumps({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}})
ANSWER = "".join(f"data: {one}\n\n" for one in (CHUNK, CHUNK, USAGE, "[DONE]")).encode()
OPTIONS = ("--model=t5", "--scenario=enc-dec", "--requests=6", "--duration=1h", "--quiet")


async def _run(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, list[int]]:
    parser = argparse.ArgumentParser()
    bench.configure(parser)

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(200, ANSWER)

    async with serve_local(answer) as server, asyncio.timeout(120):
        address = f"http://127.0.0.1:{server.port}/v1"
        assert await bench.run(parser.parse_args([address, *OPTIONS, *more])) == 0
        return capsys.readouterr().out, [
            int(one.headers["content-length"]) for one in server.exchanges
        ]


async def test_every_size_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    out, sent = await _run(capsys, "--grid", "1,3x0,20", "-o", "json")
    loads = [one["load"] for one in json.loads(out)]
    assert loads == [
        f"enc-dec: closed loop, {users} users, {words} words, 6 requests"
        for users in (1, 3)
        for words in (0, 20)
    ]
    with_words = [one > min(sent) + 2 * 20 for one in sent]
    assert with_words == [*[False] * 6, *[True] * 6] * 2


async def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await _run(capsys, "--grid", "2,1x5,0")
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  failed"))
    assert [line.split() for line in lines[at:]] == [
        ["failed", "2", "1"],
        ["5", "0.0", "0.0"],
        ["0", "0.0", "0.0"],
    ]
    assert lines[0].startswith("t5 at http://127.0.0.1:")
    titles = [line[2:30].strip() for line in lines if line.endswith("           2           1")]
    assert titles == ["answers per second", "tokens per second", "end to end p50, ms", "failed"]


async def test_places_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await _run(capsys, "--grid", "1x0", "-o", "json")
    report = BenchReport.from_json(json.dumps(json.loads(out)[0]))
    table = as_table(
        {
            (users, words): report.model_copy(update={"answered_per_second": users + words / 10})
            for users, words in Grid.parse("7,3x5,1").cells
        }
    )
    lines = [line.split() for line in table.splitlines()]
    assert lines[3:5] == [["5", "7.5", "3.5"], ["1", "7.1", "3.1"]]


def test_what_a_grid_is() -> None:
    assert Grid.parse("4,1x64,0").cells == [(4, 64), (4, 0), (1, 64), (1, 0)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *[
            pytest.param(["--grid", text], "is no grid: write numbers of users", id=text or "-")
            for text in ("", "4", "4x", "x4", "0x4", "4x-1", "1.5x4", "4x4x4")
        ],
        pytest.param(["--grid", "1x1", "--users", "2"], "--users does not go", id="users"),
        pytest.param(["--grid", "1x1", "--words", "2"], "--words does not go", id="words"),
        pytest.param(["--grid", "1x1", "--csv", "x"], "--csv does not go", id="csv"),
        pytest.param(["--grid", "1x1", "--turns", "0"], "--turns is 0", id="turns"),
    ],
)
def test_wrong_grids_are_named(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mm_lab(["bench", "http://127.0.0.1:1/v1", "--model", "m", *options]) == 2
    assert said in capsys.readouterr().err
