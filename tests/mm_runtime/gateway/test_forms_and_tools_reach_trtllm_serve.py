"""Backend PyTorch: forms and tools are sent as the server has them, or refused by name."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from transformers import PreTrainedTokenizerFast

from mm_api.documents.trtllm_serve import TrtllmServe, keeps_forms
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.prompts.conversation import ChatPrompt
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.tokens import TextCodec
from support import tool_templates
from support.gateways import MODEL, TEMPLATE, serve, toy_gateway, toy_manifest, write_processor
from support.model_configs import planned
from support.recorded_server import RecordedServer, recorded_server

SECONDS = 60
SCHEMA = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/one"}},
    "required": ["a"],
    "$defs": {"one": {"const": 1}},
}
NAMED = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}


def _planned(version: str, guided: str = "Auto") -> TrtllmServe:
    engine = {"backend": "PyTorch", "guidedDecoding": guided}
    plan = planned("qwen2-vl", engine, version=version)
    assert plan.serve
    return plan.serve


def _server_of(version: str, folder: Path) -> Iterator[tuple[RecordedServer, TrtllmServe]]:
    plan = _planned(version)
    options = {name: one for name, one in plan.options.items() if name.startswith("guided")}
    with recorded_server(folder, version, options) as running:
        yield running, plan


@pytest.fixture(scope="module", params=["1.2.1", "1.3.0rc20"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordedServer, TrtllmServe]]:
    yield from _server_of(request.param, tmp_path_factory.mktemp("recorded"))


@asynccontextmanager
async def _client(
    folder: Path, server: RecordedServer, plan: TrtllmServe, template: str = TEMPLATE
) -> AsyncIterator[AsyncOpenAI]:
    engine = OpenAiServerEngine(server.address, TrtllmServeDialect(MODEL), request_seconds=SECONDS)
    async with (
        serve(toy_gateway(folder, engine, template=template, trtllm_serve=plan)) as running,
        AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=SECONDS
        ) as client,
    ):
        yield client
    await engine.close()


@pytest.fixture
async def client(
    tmp_path: Path, server: tuple[RecordedServer, TrtllmServe]
) -> AsyncIterator[AsyncOpenAI]:
    async with _client(tmp_path, *server) as found:
        yield found


async def _answer(client: AsyncOpenAI, **form: object) -> str:
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "?"}]}
    answer = await client.chat.completions.create(**body, extra_body=form)
    return answer.choices[0].message.content or ""


async def test_schemas(client: AsyncOpenAI) -> None:
    """Every version keeps them: the answer is the object, and not a list or a sentence."""
    assert json.loads(await _answer(client, response_format=NAMED)) == {"a": 1}
    assert json.loads(await _answer(client, structured_outputs={"json": SCHEMA})) == {"a": 1}
    assert json.loads(await _answer(client, response_format={"type": "json_object"})) == {}


async def test_patterns(client: AsyncOpenAI) -> None:
    assert await _answer(client, structured_outputs={"regex": "red"}) == "red"
    assert await _answer(client, structured_outputs={"choice": ["blue", "green"]}) == "blue"


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"response_format": NAMED}, "response_format"),
        ({"structured_outputs": {"regex": "red"}}, "structured_outputs.regex"),
    ],
)
async def test_older_servers_are_sent_no_form(
    tmp_path: Path, form: dict[str, Any], param: str
) -> None:
    """All forms have one floor, which the refusal names beside the version that was found."""
    with recorded_server(tmp_path, "1.1.0") as running:
        async with _client(tmp_path / "gateway", running, _planned("1.1.0")) as client:
            with pytest.raises(BadRequestError, match=r"since TensorRT-LLM 1\.2.*1\.1\.0") as found:
                await _answer(client, **form)
        assert not running.requested
    assert (found.value.param, found.value.code) == (param, "unsupported_parameter")


async def test_what_is_not_kept_is_refused(
    client: AsyncOpenAI, server: tuple[RecordedServer, TrtllmServe]
) -> None:
    """By name, before anything is sent: the server would drop some of it silently."""
    before = len(server[0].requested)
    schema = {"name": "x", "schema": {"type": "array", "uniqueItems": True}}
    form = {"type": "json_schema", "json_schema": schema}
    with pytest.raises(BadRequestError) as refusal:
        await _answer(client, response_format=form)
    assert refusal.value.param == "response_format.json_schema.schema"
    assert len(server[0].requested) == before


async def test_a_server_without_the_option_is_sent_no_form(
    tmp_path: Path, server: tuple[RecordedServer, TrtllmServe]
) -> None:
    off = _planned(server[1].version, "Off")
    async with _client(tmp_path, server[0], off) as client:
        with pytest.raises(BadRequestError, match="must not be Off"):
            await _answer(client, response_format=NAMED)


CITY = {"type": "object", "properties": {"city": {"const": "Rome"}}, "required": ["city"]}
RAIN = {"name": "rain", "description": "Whether it rains.", "parameters": CITY}
TOOLS = [
    {"type": "function", "function": RAIN},
    {"type": "function", "function": {"name": "wind", "strict": True}},
]
CALLED = '{"city": "Ulm"}'
QUESTION = [{"role": "user", "content": "? order: call"}]
PLAIN = [{"role": "user", "content": "?"}]
TOOLS_NAMED = {"type": "function", "function": {"name": "rain"}}


@pytest.fixture(scope="module", params=["1.1.0", "1.2.1"])
def caller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordedServer, TrtllmServe]]:
    yield from _server_of(request.param, tmp_path_factory.mktemp("recorded"))


@pytest.fixture
async def calling(
    tmp_path: Path, caller: tuple[RecordedServer, TrtllmServe]
) -> AsyncIterator[AsyncOpenAI]:
    """The template writes calls as Hermes."""
    async with _client(tmp_path, *caller, tool_templates.HERMES) as found:
        yield found


def _body(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": QUESTION, "max_tokens": 64, "tools": TOOLS, **more}


async def test_calls_are_read(
    calling: AsyncOpenAI, caller: tuple[RecordedServer, TrtllmServe]
) -> None:
    """In an answer and in its stream; the functions are in the prompt, and are counted."""
    answer = await calling.chat.completions.create(**_body())
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content.strip()) == ("tool_calls", "One moment.")
    calls = choice.message.tool_calls
    assert [(one.function.name, one.function.arguments) for one in calls] == [
        ("rain", CALLED),
        ("wind", CALLED),
    ]
    sent = caller[0].requested[-1]
    assert "tool_choice" not in sent
    assert [one["function"]["name"] for one in sent["tools"]] == ["rain", "wind"]
    assert sent["tools"][0]["function"] == RAIN
    bare = await calling.chat.completions.create(**_body(tool_choice="none"))
    assert answer.usage.prompt_tokens > bare.usage.prompt_tokens + len(TOOLS)
    stream = await calling.chat.completions.create(**_body(), stream=True)
    chunks = [chunk.choices[0] async for chunk in stream]
    deltas = [delta for chunk in chunks for delta in chunk.delta.tool_calls or ()]
    assert [one.function.name for one in deltas if one.function.name] == ["rain", "wind"]
    for index in range(2):
        pieces = [one.function.arguments or "" for one in deltas if one.index == index]
        assert len(pieces) > 1
        assert "".join(pieces) == CALLED
    assert chunks[-1].finish_reason == "tool_calls"


async def test_fewer_calls_and_none(
    calling: AsyncOpenAI, caller: tuple[RecordedServer, TrtllmServe]
) -> None:
    """One at the most, where a client says so; `none` sends no function."""
    answer = await calling.chat.completions.create(**_body(parallel_tool_calls=False))
    assert [one.function.name for one in answer.choices[0].message.tool_calls] == ["rain"]
    body = _body(tool_choice="none", messages=PLAIN)
    answer = await calling.chat.completions.create(**body)
    assert answer.choices[0].message.tool_calls is None
    assert "tools" not in caller[0].requested[-1]


async def test_the_conversation_is_continued(
    calling: AsyncOpenAI, caller: tuple[RecordedServer, TrtllmServe]
) -> None:
    """Since 1.2 the template gets calls and what they have found; before, calls are refused."""
    running, plan = caller
    answer = await calling.chat.completions.create(**_body(parallel_tool_calls=False))
    message = answer.choices[0].message
    (call,) = message.tool_calls
    found = {"role": "tool", "tool_call_id": call.id, "content": "dry"}
    body = _body(messages=[*QUESTION, message, found])
    before = len(running.requested)
    if not plan.keeps_calls:
        with pytest.raises(BadRequestError, match=r"since TensorRT-LLM 1\.2.*1\.1\.0") as refusal:
            await calling.chat.completions.create(**body)
        assert refusal.value.param == "messages[1].tool_calls"
        assert refusal.value.code == "unsupported_parameter"
        assert len(running.requested) == before
        return
    again = await calling.chat.completions.create(**body)
    assert again.choices[0].message.tool_calls is None
    sent = running.requested[-1]
    assert sent["roles"] == ["user", "assistant", "tool"]
    assert sent["kept"][1]["tool_calls"] == [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": "rain", "arguments": {"city": "Ulm"}},
        }
    ]
    assert sent["kept"][2] == {"tool_call_id": call.id}


@pytest.mark.parametrize("choice", ["required", TOOLS_NAMED], ids=["required", "named"])
async def test_a_call_that_must_be_made(
    tmp_path: Path, caller: tuple[RecordedServer, TrtllmServe], choice: object
) -> None:
    """It is the form of the answer, of models that write calls as bare JSON, since 1.2."""
    async with _client(tmp_path, *caller, tool_templates.LLAMA) as calling:
        if not keeps_forms(caller[1].version):
            with pytest.raises(
                BadRequestError, match=r"since TensorRT-LLM 1\.2.*1\.1\.0"
            ) as refusal:
                await calling.chat.completions.create(**_body(messages=PLAIN, tool_choice=choice))
            assert refusal.value.param == "tool_choice"
            return
        answer = await calling.chat.completions.create(**_body(messages=PLAIN, tool_choice=choice))
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("rain", {"city": "Rome"})
    sent = caller[0].requested[-1]
    assert "tool_choice" not in sent
    assert (sent["response_format"]["type"], len(sent["tools"])) == ("json", 2)


async def test_a_call_in_marks_cannot_be_forced(
    calling: AsyncOpenAI, caller: tuple[RecordedServer, TrtllmServe]
) -> None:
    """Refused by name: the server keeps no answer to a schema between two marks."""
    before = len(caller[0].requested)
    with pytest.raises(BadRequestError, match="bare JSON") as refusal:
        await calling.chat.completions.create(**_body(tool_choice="required"))
    assert (refusal.value.param, refusal.value.code) == ("tool_choice", "unsupported_parameter")
    assert len(caller[0].requested) == before


def _prompt(folder: Path, places: Mapping[str, str]) -> ChatPrompt:
    """Return how a toy model's conversations are written; `places`: file -> its template."""
    write_processor(folder)
    processor = folder / "processor"
    (processor / "chat_template.jinja").unlink()
    for place, template in places.items():
        file = processor / place
        content = json.loads(file.read_text()) if file.is_file() else {}
        file.write_text(json.dumps({**content, "chat_template": template}))
    directory = EngineDirectory(folder, toy_manifest())
    return load_chat_prompt(directory, TextCodec(directory.tokenizer), written_by_server=True)


TEXTS = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"


def test_tools_are_written_by_the_tokenizers_template(tmp_path: Path) -> None:
    """As upstream chooses it: the processor's own is for conversations without tools."""
    prompt = _prompt(
        tmp_path, {"chat_template.json": TEXTS, "tokenizer_config.json": tool_templates.HERMES}
    )
    request = {"model": MODEL, "messages": QUESTION}
    plain = prompt.write(prompt.split(ChatRequest.model_validate(request)))
    offered = prompt.write(prompt.split(ChatRequest.model_validate({**request, "tools": TOOLS})))
    assert (plain, "# Tools" in offered) == ("<s>? order: call", True)


def test_a_tokenizer_without_a_template_for_tools(tmp_path: Path) -> None:
    """The server would find none: refused by name, though the processor's has a place for them."""
    prompt = _prompt(tmp_path, {"chat_template.json": tool_templates.HERMES})
    assert prompt.dialect is None


@pytest.mark.parametrize("name", ["HERMES", "MISTRAL", "LLAMA"])
def test_the_counted_prompt_is_the_servers(tmp_path: Path, name: str) -> None:
    """Text for text as transformers writes the conversation that the server makes of the body."""
    template = getattr(tool_templates, name)
    prompt = _prompt(tmp_path, {"tokenizer_config.json": template})
    call: dict[str, Any] = {"id": "call00001", "type": "function"}
    call["function"] = {"name": "rain", "arguments": CALLED}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "rain in Ulm?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "dry"},
    ]
    request = ChatRequest.model_validate({"model": MODEL, "messages": messages, "tools": TOOLS})
    found = prompt.split(request)
    functions = [{**RAIN}, found.tools[1]]
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "processor" / "tokenizer.json"),
        bos_token="<s>",
        eos_token="</s>",
        chat_template=template,
    )
    call["function"] = {"name": "rain", "arguments": json.loads(CALLED)}
    messages[1]["content"] = ""  # as parse_chat_message_content makes it
    expected = theirs.apply_chat_template(
        messages,
        tools=[{"type": "function", "function": one} for one in functions],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert prompt.write(found) == expected


def test_a_name_that_the_server_drops(tmp_path: Path) -> None:
    """Of a message of a tool: refused where the template would write it, else without effect."""
    named = {"role": "tool", "name": "rain", "tool_call_id": "call00001", "content": "dry"}
    request = ChatRequest.model_validate({"model": MODEL, "messages": [*QUESTION, named]})
    silent = _prompt(tmp_path / "silent", {"tokenizer_config.json": tool_templates.HERMES})
    assert silent.split(request).turns[1].role == "tool"
    writing = tool_templates.HERMES.replace(
        "<tool_response>", "<tool_response>' + (message.name or '') + '"
    )
    prompt = _prompt(tmp_path / "writing", {"tokenizer_config.json": writing})
    with pytest.raises(Exception, match="trtllm-serve drops it") as refusal:
        prompt.split(request)
    assert getattr(refusal.value, "param", None) == "messages[1].name"
