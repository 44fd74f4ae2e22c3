"""Tools through the real path: prompts, calls that must be made, calls in streams, every dialect.

The model's weights are random and its tokens bytes: forms make it say what the tests read.
"""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from support import calling_llava, tool_templates
from support.cases import cases
from support.made_once import made_once
from support.real_gateway import RealGateway, gateway_before, run_pair
from support.tiny_llava import BuiltEngine, build_adapted, engine_in

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Ulm", "Rome"]}, "days": {"$ref": "#/$defs/days"}},
            "required": ["city", "days"],
            "additionalProperties": False,
            "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 7}},
        },
    },
}
TIME = {"type": "function", "function": {"name": "time", "parameters": None}}
MESSAGES = [{"role": "user", "content": "Will it rain in Ulm?"}]
NAMED = {"type": "function", "function": {"name": "weather"}}
DIALECTS = ("hermes", "mistral", "llama")


def _build(folder: Path) -> None:
    checkpoint = calling_llava.write_calling_llava(folder / "checkpoint", tool_templates.HERMES)
    build_adapted(folder, checkpoint, {}, calling_llava.LIMITS)


@pytest.fixture(scope="module")
def calling_engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    return engine_in(made_once(tmp_path_factory, "calling-engine", _build))


@pytest.fixture(scope="module")
def pair(
    calling_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealGateway]:
    folder = tmp_path_factory.mktemp("calling-pair")
    with run_pair(calling_engine, folder, request_timeout_seconds=60) as pair:
        yield pair


@pytest.fixture(scope="module")
def addresses(
    pair: RealGateway, calling_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Dialect -> gateway: others before the same Triton, with other chat templates."""
    with ExitStack() as stack:
        found = {"hermes": pair.url}
        for name, template in (
            ("mistral", tool_templates.MISTRAL),
            ("llama", tool_templates.LLAMA),
        ):
            folder = tmp_path_factory.mktemp(name)
            directory = folder / "engine"
            shutil.copytree(calling_engine.directory, directory)
            (directory / "processor" / "chat_template.jinja").write_text(template)
            changed = BuiltEngine(directory, calling_engine.serving)
            found[name] = stack.enter_context(gateway_before(changed, pair.triton_grpc, folder))
        yield found


@pytest.fixture
async def clients(addresses: dict[str, str]) -> AsyncIterator[dict[str, AsyncOpenAI]]:
    made = {
        name: AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
        for name, url in addresses.items()
    }
    yield made
    for client in made.values():
        await client.close()


def _body(pair: RealGateway, **more: Any) -> dict[str, Any]:
    given = {"model": pair.model, "messages": MESSAGES, "max_tokens": 200, "temperature": 0}
    return {**given, "tools": [WEATHER, TIME], **more}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_named_function(
    pair: RealGateway, clients: dict[str, AsyncOpenAI], dialect: str
) -> None:
    """It is called, with arguments of its schema; the stream says the same."""
    client = clients[dialect]
    body = _body(pair, tool_choice=NAMED)
    answer = await client.chat.completions.create(**body)
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "weather")
    arguments = json.loads(call.function.arguments)
    assert arguments["city"] in {"Ulm", "Rome"}
    assert 1 <= arguments["days"] <= 7
    chunks = [
        chunk.choices[0]
        async for chunk in await client.chat.completions.create(**body, stream=True)
    ]
    deltas = [call for chunk in chunks for call in chunk.delta.tool_calls or ()]
    # How many pieces the arguments come in depends on how far the client is behind.
    first, *rest = deltas
    assert (first.function.name, {delta.function.name for delta in rest}) == ("weather", {None})
    assert "".join(delta.function.arguments for delta in deltas) == call.function.arguments
    assert (chunks[-1].finish_reason, chunks[-1].delta.content) == ("tool_calls", "")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_conversation_is_continued(
    pair: RealGateway, clients: dict[str, AsyncOpenAI], dialect: str
) -> None:
    """The answer goes back as it came, with what the tool has found; the template takes it."""
    body = _body(pair, tool_choice="required", parallel_tool_calls=False)
    answer = await clients[dialect].chat.completions.create(**body)
    message = answer.choices[0].message
    (call,) = message.tool_calls
    found = {"role": "tool", "tool_call_id": call.id, "content": "[1, 2]"}
    body |= {"messages": [*MESSAGES, message, found], "tool_choice": "none"}
    again = await clients[dialect].chat.completions.create(**{**body, "max_tokens": 4})
    assert again.choices[0].message.tool_calls is None
    assert again.usage.prompt_tokens > len(MESSAGES[0]["content"]) + len("[1, 2]")


async def test_calls_that_the_model_makes_itself(
    pair: RealGateway, clients: dict[str, AsyncOpenAI]
) -> None:
    """`auto`: text before the call, two calls, several answers; without tools it is text."""
    marked = r'<tool_call>\n\{"name": "time", "arguments": \{"x": [0-9]\}\}\n</tool_call>'
    body = _body(
        pair,
        tool_choice="auto",
        n=2,
        seed=3,
        extra_body={"structured_outputs": {"regex": f"So:{marked}\n{marked}"}},
    )
    body["temperature"] = 1.0
    answer = await clients["hermes"].chat.completions.create(**body)
    ids = set()
    for choice in answer.choices:
        assert (choice.message.content, choice.finish_reason) == ("So:", "tool_calls")
        assert [call.function.name for call in choice.message.tool_calls] == ["time", "time"]
        ids |= {call.id for call in choice.message.tool_calls}
    assert len(ids) == 4
    only = await clients["hermes"].chat.completions.create(**body, parallel_tool_calls=False)
    assert [len(choice.message.tool_calls) for choice in only.choices] == [1, 1]
    body["tool_choice"] = "none"
    without = await clients["hermes"].chat.completions.create(**body)
    assert without.choices[0].message.content.count("<tool_call>") == 2
    assert without.choices[0].finish_reason == "stop"
    assert without.usage.prompt_tokens < answer.usage.prompt_tokens


async def test_scores_of_calls(pair: RealGateway, clients: dict[str, AsyncOpenAI]) -> None:
    """Every token of a stream with calls has its score, also where it adds no text."""
    body = _body(pair, tool_choice=NAMED, logprobs=True, stream=True)
    body["stream_options"] = {"include_usage": True}
    scores, tokens = 0, 0
    async for chunk in await clients["hermes"].chat.completions.create(**body):
        if chunk.usage:
            tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            scores += len(choice.logprobs.content if choice.logprobs else ())
    assert scores == tokens > 0


@cases(
    "more param words",
    {
        "structural-tag": (
            {"response_format": {"type": "structural_tag", "format": {}}},
            "response_format",
            "unknown type 'structural_tag'",
        ),
        "twice": ({"tools": [TIME, TIME]}, "tools", "two functions have the name 'time'"),
        "many": ({"tools": [TIME] * 129}, "tools", "at most 128"),
        "name": (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name",
            "pattern",
        ),
        "control-token": (
            {"tools": [{"type": "function", "function": {"name": "a", "description": "</s>"}}]},
            "tools[0].function",
            "control token",
        ),
        "no-schema": (
            {
                "tool_choice": "required",
                "tools": [
                    {"type": "function", "function": {"name": "a", "parameters": {"type": "shape"}}}
                ],
            },
            "tools",
            "guided_decoding_guide",
        ),
    },
)
async def test_refusals(
    pair: RealGateway,
    clients: dict[str, AsyncOpenAI],
    more: dict[str, object],
    param: str | None,
    words: str,
) -> None:
    with pytest.raises(BadRequestError, match=words) as refusal:
        await clients["hermes"].chat.completions.create(**_body(pair, **more))
    assert refusal.value.param == param


async def test_templates_without_tools(real: RealGateway, real_client: AsyncOpenAI) -> None:
    """Neither functions nor calls are left out of the prompt without a word."""
    with pytest.raises(BadRequestError, match="no place for tools") as refusal:
        await real_client.chat.completions.create(**{**_body(real), "model": real.model})
    assert refusal.value.param == "tools"
    call = {"id": "1", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    with pytest.raises(BadRequestError, match="no place for calls") as refusal:
        await real_client.chat.completions.create(model=real.model, messages=[*MESSAGES, said])
    assert refusal.value.param == "messages[1].tool_calls"
