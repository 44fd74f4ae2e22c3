"""`mm-lab bench --against`: two endpoints under one load, and a file with plots."""

import argparse
import asyncio
import json
import random
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mm_lab.cli import main as mm_lab
from mm_lab.commands import bench
from mm_lab.loadtest.page import as_page
from mm_lab.loadtest.results import Result
from mm_lab.loadtest.side_by_side import ratios
from support.cases import cases
from support.gateways import serve, toy_gateway
from support.http_servers import Exchange, serve_local
from support.scripted_engine import ScriptedEngine


def results(seconds: float, count: int = 300, *, seed: int = 1, failed: int = 0) -> list[Result]:
    source = random.Random(seed)  # noqa: S311  # no secrets
    found = []
    for at in range(count):
        first = seconds * source.uniform(0.8, 1.2)
        error = "timeout" if at < failed else ""
        found.append(Result(at, at, at + 2 * first, 0, error=error, first_token=at + first))
    return found


def test_a_slower_endpoint_is_shown_as_slower() -> None:
    found = {one.name: one for one in ratios(results(0.1), results(0.2, seed=2, failed=50))}
    assert sorted(found) == [
        "end to end p50",
        "end to end p95",
        "first token p50",
        "first token p95",
    ]
    median = found["first token p50"]
    assert median.first == pytest.approx(0.1, rel=0.1)
    assert 1.8 < median.low <= median.value <= median.high < 2.2


def test_equal_endpoints_do_not_differ() -> None:
    one, other = results(0.1, seed=3), results(0.1, seed=4)
    (first, *_) = ratios(one, other)
    assert first.low < 1 < first.high
    assert list(ratios(one, other)) == list(ratios(one, other))


def test_what_one_lacks_is_left_out() -> None:
    assert list(ratios(results(0.1), results(0.1, failed=300))) == []


def test_pages_need_nothing_besides_themselves() -> None:
    page = as_page("a <b>", "x < y", {"A&B": results(0.1), "C": results(0.2)})
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "a &lt;b&gt;" in page
    assert "x &lt; y" in page
    drawings = page.split("<svg ")[1:]
    assert len(drawings) == 2
    for drawing in drawings:
        tree = ET.fromstring("<svg " + drawing.split("</svg>")[0] + "</svg>")  # noqa: S314  # ours
        assert len(tree.findall("polyline")) == 2
        assert "A&B" in [text.text for text in tree.findall("text")]


def test_a_page_without_answers_has_no_plots() -> None:
    assert "<svg" not in as_page("t", "", {"A": results(0.1, 3, failed=3)})


async def run(*options: str) -> int:
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    async with asyncio.timeout(240):
        return await bench.run(parser.parse_args(["--quiet", "--duration", "1h", *options]))


@pytest.mark.slow
async def test_both_get_the_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    folders = [tmp_path / "a", tmp_path / "b"]
    gateways = [
        toy_gateway(folder, ScriptedEngine(), max_concurrency=8, max_queue_size=100)
        for folder in folders
    ]
    async with serve(gateways[0]) as one, serve(gateways[1]) as other:
        options = [f"{one.url}/v1", "--against", f"{other.url}/v1", "--requests", "20"]
        options += ["--users", "4", "--picture-size", "56"]
        assert await run(*options, "--html", str(page)) == 0
        shown = capsys.readouterr().out
        assert await run(*options, "-o", "json") == 0
        reports = json.loads(capsys.readouterr().out)
    assert f"A: toy at {one.url}/v1" in shown
    assert f"B: toy at {other.url}/v1" in shown
    assert "first token p50" in shown
    assert [report["answered"] for report in reports] == [20, 20]
    assert page.read_text().count("<polyline") == 4


async def test_one_that_answers_nothing_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:

    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(503)

    async with serve_local(refuse) as server:
        address = f"http://127.0.0.1:{server.port}/v1"
        options = [address, "--against", address, "--model", "m", "--users", "1", "--requests", "1"]
        assert await run(*options) == 1
    assert f"{address}: no request was answered: {{'http-503': 1}}" in capsys.readouterr().err


async def test_each_serves_a_model_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    def serving(model: str) -> Callable[[Exchange], Awaitable[None]]:
        async def answer(exchange: Exchange) -> None:
            listed = json.dumps({"data": [{"id": model}]}).encode()
            is_list = exchange.path == "/v1/models"
            await exchange.answer(200 if is_list else 503, listed if is_list else b"")

        return answer

    async with serve_local(serving("a")) as one, serve_local(serving("b")) as other:
        first, second = (f"http://127.0.0.1:{server.port}/v1" for server in (one, other))
        await run(first, "--against", second, "--users", "1", "--requests", "1", "-o", "json")
    assert [one["model"] for one in json.loads(capsys.readouterr().out)] == ["a", "b"]


@cases(
    "options words",
    {
        "address": (["--against", "b"], "b is not an address"),
        "csv": (["--against", "http://127.0.0.1:1/v1", "--csv", "x.csv"], "leave --against out"),
    },
)
def test_wrong_options_are_named(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["bench", "http://127.0.0.1:1/v1", "--model", "m", "--users", "1"]
    assert mm_lab([*usual, *options]) == 2
    assert words in capsys.readouterr().err
