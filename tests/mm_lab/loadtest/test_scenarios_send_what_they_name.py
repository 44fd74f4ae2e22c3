"""`mm-lab bench --scenario`: the requests of each, and what the report and the CSV say of them."""

import csv
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mm_lab.cli import main as mm_lab
from mm_lab.loadtest.arrivals import Due
from mm_lab.loadtest.mix import Choice, Mix, Question
from mm_lab.loadtest.requests_csv import COLUMNS
from mm_lab.loadtest.scenarios import Scenario, requests_of
from support.bench_reports import report_of
from support.cases import cases
from support.gateways import MODEL, Running, serve, toy_gateway
from support.http_servers import Exchange, serve_local
from support.scripted_engine import ScriptedEngine

MIX = Mix(
    MODEL,
    "What is in it?",
    Choice.parse("1"),
    Choice.parse("0"),
    Choice.parse("8"),
    ("data:image/png;base64,AA==",),
)


def sent(scenario: Scenario, count: int) -> list[Question]:
    user = requests_of(scenario, MIX, turns=3, video_url="data:video/mp4;base64,AA==").of_user(0)
    source = random.Random(1)  # noqa: S311  # load, not secrets
    return [user.question(Due(0.0), source) for _ in range(count)]


def kinds(message: dict[str, Any]) -> list[str]:
    return [part["type"] for part in message["content"]]


def test_chats_grow_and_begin_again() -> None:
    questions = sent(Scenario.MULTI_TURN, 4)
    messages = [one.body["messages"] for one in questions]

    assert [one.turn for one in questions] == [1, 2, 3, 1]
    assert [len(one) for one in messages] == [1, 3, 5, 1]
    assert messages[1][:1] == messages[0]
    assert messages[2][:3] == messages[1]
    assert [one["role"] for one in messages[2]] == [
        *("user", "assistant", "user", "assistant", "user")
    ]
    assert kinds(messages[2][0]) == ["image_url", "text"]
    assert kinds(messages[2][4]) == ["text"]


def test_users_have_chats_of_their_own() -> None:
    users = requests_of(Scenario.MULTI_TURN, MIX, turns=3, video_url="")
    one, other, source = users.of_user(0), users.of_user(1), random.Random(1)  # noqa: S311  # as above
    one.question(Due(0.0), source)
    assert other.question(Due(0.0), source).turn == 1


def test_videos_are_parts_of_chats() -> None:
    (question,) = sent(Scenario.VIDEO, 1)
    (message,) = question.body["messages"]
    assert kinds(message) == ["video_url", "text"]
    assert message["content"][0]["video_url"]["fps"] == 2


def test_texts_are_prompts() -> None:
    (question,) = sent(Scenario.ENC_DEC, 1)
    assert (question.path, question.body["prompt"]) == ("completions", "What is in it?")
    assert "messages" not in question.body


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def running(tmp_path: Path, engine: ScriptedEngine) -> AsyncIterator[Running]:
    toy = toy_gateway(tmp_path, engine, max_concurrency=8, max_queue_size=100)
    async with serve(toy) as gateway:
        yield gateway


async def test_a_hundred_requests_are_a_hundred(
    running: Running, engine: ScriptedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "requests.csv"
    options = ["--scenario", "dashinfer", "--picture-size", "56", "--csv", str(path)]
    options += ["--max-tokens", "8"]  # of the 1,024 of the guide, which the toy does not take
    code, report = await report_of(capsys, f"{running.url}/v1", *options)

    assert (code, report.requests, report.answered) == (0, 100, 100)
    assert report.load == "dashinfer: closed loop, 10 users, 100 requests"
    assert report.first_token_by_turn == []
    sent = {(one.max_tokens, one.sampling.temperature) for one in engine.requests[-100:]}
    assert sent == {(8, 0.1)}
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert (len(lines), tuple(lines[0])) == (100, COLUMNS)
    assert {(one["images"], one["output_tokens"], one["error"]) for one in lines} == {
        ("2", "3", "")
    }
    assert lines == sorted(lines, key=lambda one: float(one["due"]))


async def test_turns_have_latencies_of_their_own(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--scenario", "multi-turn", "--turns", "3", "--users", "2", "--requests", "12"]
    _, report = await report_of(capsys, f"{running.url}/v1", *options, "--picture-size", "56")
    assert report.answered == 12
    assert sum(turn.count for turn in report.first_token_by_turn) == 12
    assert len(report.first_token_by_turn) == 3


async def test_completions_stream_texts(capsys: pytest.CaptureFixture[str]) -> None:
    chunk = json.dumps({"choices": [{"index": 0, "text": "das"}]})
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}})

    async def answer(exchange: Exchange) -> None:
        body = "".join(f"data: {one}\n\n" for one in (chunk, chunk, usage, "[DONE]"))
        await exchange.answer(200, body.encode())

    async with serve_local(answer) as server:
        options = ["--model", "t5", "--scenario", "enc-dec", "--requests", "3"]
        _, report = await report_of(capsys, f"http://127.0.0.1:{server.port}/v1", *options)
    assert (report.answered, report.errors) == (3, {})
    assert {exchange.path for exchange in server.exchanges} == {"/v1/completions"}
    assert report.everything.inter_token is not None


@cases(
    "options words",
    {
        "no-load": ([], "no load is given"),
        "open-loop": (["--scenario", "dashinfer", "--rate", "2"], "is a closed loop"),
        "no-video": (["--scenario", "video"], "needs --video"),
        "requests": (["--rate", "2", "--requests", "5"], "ends a closed loop"),
        "no-turn": (["--users", "1", "--turns", "0"], "--turns is 0"),
        "missing": (["--scenario", "video", "--video", "/no/such.mp4"], "--video /no/such.mp4"),
    },
)
def test_wrong_options_are_named(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mm_lab(["bench", "http://127.0.0.1:1/v1", "--model", "m", *options]) == 2
    assert words in capsys.readouterr().err
