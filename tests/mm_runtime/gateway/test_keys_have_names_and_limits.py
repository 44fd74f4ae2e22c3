"""Tokens let requests in and have names: requests are counted, limited and take turns by name."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_edge.errors import InvalidRequestError, KeyLimitError
from mm_edge.key_limits import Budget, KeyLimits
from mm_edge.keys import MOST_KEYS, read_keys
from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.gateway.admission.fair_queue import FairQueue, Ticket, Waiting
from mm_runtime.gateway.backends.engine import LIKELIEST, EngineRequest
from mm_runtime.gateway.preparation import salt_of
from mm_runtime.gateway.wiring import Gateway
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, Running, client_of, serve, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}
KEYS = "alice: sk-a\nalice: sk-a2\nbob: sk-b\nsk-plain\n"


@asynccontextmanager
async def _serving(
    folder: Path, *limits: KeyLimitPlan, engine: ScriptedEngine | None = None, keys: str = KEYS
) -> AsyncIterator[tuple[Running, httpx.AsyncClient, Path]]:
    tokens = folder / "token"
    tokens.write_text(keys)
    gateway = toy_gateway(
        folder / "engine",
        engine or ScriptedEngine(),
        auth_token_file=tokens,
        key_limits=list(limits),
    )
    async with (
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        yield running, client, tokens


async def _post(client: httpx.AsyncClient, token: str, **more: object) -> httpx.Response:
    return await client.post(
        "/v1/chat/completions",
        json={**QUESTION, **more},
        headers={"Authorization": f"Bearer {token}"},
    )


@cases(
    "text names problems",
    {
        "tokens-alone": ("one\n\n two \n", ["unnamed", "unnamed"], 0),
        "named": ("a: one\nb.c-d_e:\ttwo", ["a", "b.c-d_e"], 0),
        "colon-inside-a-token": ("a:one", ["unnamed"], 0),
        "no-name": ("a b: one\nc: two", ["c"], 1),
        "no-token": ("a:\nb: ", [], 2),
        "name-too-long": (f"{'n' * 64}: one", [], 1),
        "too-many": ("\n".join(f"t{n}" for n in range(300)), ["unnamed"] * 256, 1),
    },
)
def test_lines_are_names_and_tokens(text: str, names: list[str], problems: int) -> None:
    """A line is a token, with a name or without; what is neither lets no request in."""
    keys = read_keys(text)
    assert [key.name for key in keys.known] == names
    assert len(keys.problems) == problems
    assert len(keys.known) <= MOST_KEYS


def test_problems_do_not_show_tokens() -> None:
    """The log has the number of a line, nothing of what stands in it."""
    [problem] = read_keys("my name: secret-token").problems
    assert problem.startswith("line 1: ")
    assert "secret-token" not in problem


def test_a_budget_fills_up_within_a_minute() -> None:
    """Sixty a minute: all at once, then one a second; more than there ever are needs all."""
    budget = Budget(60, now=0.0)
    budget.take(60, now=0.0)
    assert budget.seconds_until(1, now=0.0) == 1.0
    assert budget.seconds_until(100, now=30.0) == 30.0
    assert budget.seconds_until(1, now=1000.0) == 0.0
    budget.take(60, now=1000.0)
    budget.give(30, now=1000.0)
    assert budget.seconds_until(30, now=1000.0) == 0.0


def test_what_was_not_generated_is_given_back() -> None:
    """A request reserves its longest answer, and pays for what there was of it."""
    now = 0.0
    limits = KeyLimits([KeyLimitPlan(name="a", tokens_per_minute=100)], lambda: now)
    with limits.inside("a") as claim:
        claim.reserve(90)
        claim.used = 20
        with limits.inside("a") as other, pytest.raises(KeyLimitError) as refused:
            other.reserve(50)
    assert (refused.value.reason, refused.value.retry_after_seconds) == ("key_tokens", 24)
    with limits.inside("a") as claim:
        claim.reserve(80)


def test_keys_that_are_gone_are_forgotten() -> None:
    """Names come and go; only those that are there, or have requests inside, keep their budgets."""
    limits = KeyLimits([KeyLimitPlan(name="*", requests_per_minute=1)], lambda: 0.0)
    with limits.inside("a"):
        with limits.inside("b"):
            pass
        limits.keep({"c"})
        with pytest.raises(KeyLimitError), limits.inside("a"):
            pass
        with limits.inside("b"):
            pass


async def test_names_are_counted(tmp_path: Path) -> None:
    """Both tokens of a name count under it, and those that stand alone as `unnamed`."""
    async with _serving(tmp_path) as (_, client, tokens):
        for token in ("sk-a", "sk-a2", "sk-b", "sk-plain"):
            answer = await _post(client, token)
            assert answer.status_code == 200, answer.text
        used = answer.json()["usage"]["total_tokens"]
        page = (await client.get("/metrics")).text
        for name, count in (("alice", 2), ("bob", 1), ("unnamed", 1)):
            labels = f'{{key="{name}",model="{MODEL}"}}'
            assert f"mm_key_requests_total{labels} {count}.0" in page
            assert f"mm_key_tokens_total{labels} {count * used}.0" in page
        tokens.write_text("bob: sk-b\n")
        assert (await _post(client, "sk-a")).status_code == 401
        page = (await client.get("/metrics")).text
        assert 'key="alice"' not in page
        assert 'key="bob"' in page


async def test_requests_above_a_limit_are_refused(tmp_path: Path) -> None:
    """One key is used up; another one, and the next of `*`, are answered."""
    limits = (
        KeyLimitPlan(name="alice", requests_per_minute=2),
        KeyLimitPlan(name="*", tokens_per_minute=1000),
    )
    async with _serving(tmp_path, *limits) as (_, client, _tokens):
        allowed = [await _post(client, token) for token in ("sk-a", "sk-a2", "sk-b")]
        refused = await _post(client, "sk-a")
        page = (await client.get("/metrics")).text
    assert [one.status_code for one in allowed] == [200, 200, 200]
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert error["code"] == "rate_limit_exceeded"
    assert "`alice` may use 2 requests a minute" in error["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    rejected = f'mm_key_rejected_total{{key="alice",model="{MODEL}",reason="key_requests"}} 1.0'
    assert rejected in page
    assert "mm_requests_rejected_total{" not in page


async def test_requests_at_one_time_are_bounded(tmp_path: Path) -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine(gate=gate)
    limit = KeyLimitPlan(name="*", concurrent_requests=1)
    async with _serving(tmp_path, limit, engine=engine) as (_, client, _tokens):
        first = asyncio.create_task(_post(client, "sk-a"))
        await eventually_async(lambda: engine.running == 1)
        refused = await _post(client, "sk-a")
        other = asyncio.create_task(_post(client, "sk-b"))
        await eventually_async(lambda: engine.running == 2)
        gate.set()
        answers = [await first, await other, await _post(client, "sk-a")]
    assert [one.status_code for one in answers] == [200, 200, 200]
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert "`alice` may use 1 requests at one time" in refused.json()["error"]["message"]


async def test_tokens_are_bounded(tmp_path: Path) -> None:
    """A request is admitted with its longest answer, and pays for the tokens that there were."""
    limit = KeyLimitPlan(name="alice", tokens_per_minute=100)
    async with _serving(tmp_path, limit) as (_, client, _tokens):
        short = await _post(client, "sk-a", max_tokens=80)
        again = await _post(client, "sk-a", max_tokens=80)
        long = await _post(client, "sk-a", max_tokens=100)
        other = await _post(client, "sk-b", max_tokens=100)
    assert [one.status_code for one in (short, again, long, other)] == [200, 200, 429, 200]
    assert "100 tokens a minute" in long.json()["error"]["message"]


def _queue(*tickets: Ticket) -> FairQueue[Ticket]:
    queue: FairQueue[Ticket] = FairQueue()
    for ticket in tickets:
        queue.push(ticket, ticket)
    return queue


def _popped(queue: FairQueue[Ticket], count: int) -> list[Ticket]:
    return [queue.pop() for _ in range(count)]


def test_a_late_key_does_not_wait_for_another_ones_queue() -> None:
    """Fifty of one key wait; one of another key is among the next two."""
    queue = _queue(*[Ticket("a", tokens=300)] * 50, Ticket("b", tokens=300))
    assert {one.key for one in _popped(queue, 2)} == {"a", "b"}


def test_shares_are_counted_in_tokens() -> None:
    queue = _queue(*[Ticket("a", tokens=2000)] * 40, *[Ticket("b", tokens=100)] * 400)
    got = _popped(queue, 200)
    tokens = {key: sum(one.tokens for one in got if one.key == key) for key in "ab"}
    assert abs(tokens["a"] - tokens["b"]) <= 2000 + 256


def test_weights_are_shares() -> None:
    heavy, light = Ticket("a", weight=3, tokens=256), Ticket("b", tokens=256)
    got = _popped(_queue(*[heavy] * 90, *[light] * 90), 80)
    assert [got.count(heavy), got.count(light)] == [60, 20]


def test_silence_saves_nothing_up() -> None:
    """A key whose queue was empty begins again with nothing, however much it did not use."""
    queue = _queue(Ticket("b", tokens=1))
    queue.pop()
    for key in "ab":
        for _ in range(8):
            ticket = Ticket(key, tokens=256)
            queue.push(ticket, ticket)
    assert "".join(one.key for one in _popped(queue, 8)) == "abababab"


def test_nothing_is_lost_or_served_twice() -> None:
    """Any order of coming, leaving and being served: each one once, and the sums are right."""
    chance = random.Random(20)  # noqa: S311  # an order, not secrets
    queue: FairQueue[int] = FairQueue()
    inside: dict[int, Waiting[int]] = {}
    for number in range(3000):
        what = chance.random()
        if what < 0.5 or not inside:
            ticket = Ticket(
                chance.choice("abc"),
                weight=chance.choice((1, 5)),
                tokens=chance.randrange(5000),
            )
            inside[number] = queue.push(ticket, number)
        elif what < 0.6:
            waiting = inside.pop(chance.choice(list(inside)))
            queue.remove(waiting)
            queue.remove(waiting)
        else:
            del inside[queue.pop()]
        assert len(queue) == len(inside)
        assert queue.tokens == sum(one.ticket.tokens for one in inside.values())
    with pytest.raises(IndexError):
        FairQueue[int]().pop()


def _wait(gateway: Gateway, count: int) -> bool:
    return len(gateway.admission.queue) == count


async def test_a_key_with_many_requests_delays_no_other(tmp_path: Path) -> None:
    """Through the gateway: five of alice wait; bob's, which comes last, is one of the next two."""
    tokens = tmp_path / "token"
    tokens.write_text("alice: a\nbob: b\n")
    gate = asyncio.Event()
    engine = ScriptedEngine(gate=gate)
    gateway = toy_gateway(
        tmp_path / "engine", engine, auth_token_file=tokens, max_concurrency=1, max_queue_size=16
    )
    async with (
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):

        async def send(token: str, text: str, **more: str) -> asyncio.Task[int]:
            headers = {"Authorization": f"Bearer {token}", **more}
            body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}

            async def post() -> int:
                answer = await client.post("/v1/chat/completions", json=body, headers=headers)
                return answer.status_code

            before = running.gateway.admission.inside
            task = asyncio.create_task(post())
            await eventually_async(lambda: task.done() or running.gateway.admission.inside > before)
            return task

        tasks = [await send("a", "first")]
        await eventually_async(lambda: engine.running == 1)
        for number in range(5):
            tasks.append(await send("a", f"alice-{number}"))
            await eventually_async(partial(_wait, gateway, number + 1))
        tasks.append(await send("b", "bob"))
        await eventually_async(lambda: len(gateway.admission.queue) == 6)
        refused = await (await send("b", "bob", **{"X-Priority": "high"}))
        gate.set()
        assert await asyncio.gather(*tasks) == [200] * 7
    order = [one.prompt.split()[1] for one in engine.requests]
    assert refused == 400
    assert "bob" in order[1:3]
    assert [one for one in order if one != "bob"] == [
        "first",
        *(f"alice-{number}" for number in range(5)),
    ]


@cases(
    "header status code",
    {
        "no-header": (None, 401, "missing_api_key"),
        "other-scheme": ("Basic b25l", 401, "missing_api_key"),
        "empty": ("Bearer", 401, "missing_api_key"),
        "wrong": ("Bearer three", 401, "invalid_api_key"),
        "first-line": ("Bearer one", 200, None),
        "second-line": ("bearer two", 200, None),
    },
)
async def test_a_token_decides(
    tmp_path: Path, header: str | None, status: int, code: str | None
) -> None:
    """Wrong or missing tokens are 401 with the scheme named, as OpenAI's error object."""
    tokens = tmp_path / "token"
    tokens.write_text("one\ntwo\n")
    gateway = toy_gateway(tmp_path / "engine", ScriptedEngine(), auth_token_file=tokens)
    headers = {} if header is None else {"Authorization": header}
    async with client_of(gateway) as client:
        for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models")):
            response = await client.request(method, path, json=QUESTION, headers=headers)
            assert status == response.status_code
            if code is not None:
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["error"]["code"] == code
        assert (await client.get("/healthz")).status_code == 200


def test_clients_of_different_keys_share_nothing() -> None:
    """Not even with a salt that one has from the other; without keys a salt stays what it is."""
    salts = [salt_of(key, given) for key in ("ann", "bob") for given in ("", "secret")]
    assert len(set(salts)) == 4
    assert salt_of("ann", "secret") == salts[1]
    assert [salt_of("", ""), salt_of("", "secret")] == ["", "secret"]


async def test_a_key_is_a_salt(tmp_path: Path) -> None:
    """What reaches the engine differs by key, and is the same for each request of one."""
    tokens, engine = tmp_path / "token", ScriptedEngine()
    tokens.write_text("alice: sk-a\nalice: sk-a2\nbob: sk-b\n")
    gateway = toy_gateway(tmp_path / "engine", engine, auth_token_file=tokens)
    async with client_of(gateway) as client:
        for token in ("sk-a", "sk-a2", "sk-b"):
            answer = await client.post(
                "/v1/chat/completions",
                json=QUESTION,
                headers={"Authorization": f"Bearer {token}"},
            )
            assert answer.status_code == 200
    first, second, other = (one.cache_salt for one in engine.requests)
    assert first == second == salt_of("alice", "")
    assert other == salt_of("bob", "")


def request_of(*, images: int) -> EngineRequest:
    return EngineRequest(
        request_id="1",
        prompt="what is it ?",
        images=(np.zeros((2, 2, 3), np.uint8),) * images,
        cache_salt="ann",
        max_tokens=1,
        sampling=LIKELIEST,
    )


@pytest.mark.parametrize("images", [0, 1])
def test_salts_of_text_reach_the_server(images: int) -> None:
    found = {one.name for one in build_inputs(request_of(images=images), newer_names=False)}
    assert "cache_salt" in found


async def test_a_salt_is_refused_where_text_is_shared() -> None:
    """TensorRT-LLM's backend names blocks by tokens alone, unless an image is among them."""
    engine = TritonEngine("127.0.0.1:1", lambda _: "", salts_text=False)
    try:
        with pytest.raises(InvalidRequestError, match="blocks of text") as refused:
            async for _ in engine.generate(request_of(images=0)):
                pass
    finally:
        await engine.close()
    assert refused.value.param == "cache_salt"
