"""Bodies of SDKs are answered, or refused by name, by one rule on every path.

Null is absent; a value that means "not used" changes nothing; any other of a parameter that acts
nowhere is refused.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.parsing import (
    parse_chat,
    parse_completion,
    parse_response,
    parse_transcription,
)
from mm_runtime.gateway.api.unused import NOT_USED, OF_OTHER_SERVERS
from support import client_bodies, tool_templates
from support.client_bodies import BODIES, CHAT, HISTORIES, NO_ARGUMENTS, RESPONSE, TEXT, Sent
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

PLAIN: dict[str, tuple[Any, dict[str, Any]]] = {
    CHAT: (parse_chat, {"messages": [{"role": "user", "content": "hi"}]}),
    TEXT: (parse_completion, {"prompt": "hi"}),
    RESPONSE: (parse_response, {"input": "hi"}),
}
BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP8z4AdMOEQH6QSAM1BAQ/oQeJv"
PNG = f"data:image/png;base64,{BASE64}"
PART = {"type": "image_url", "image_url": {"url": PNG}}
TURN = {"role": "user", "content": "hi"}
OBJECT = '{"type": "image_url", "image_url": {"url": "data:'
BOUNDARY = "b"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def _turn(*parts: object, image_of: str = "") -> dict[str, Any]:
    fields = {image_of: [PNG]} if image_of else {}
    return {"messages": [{"role": "user", "content": list(parts) or "hi", **fields}]}


async def _prompts(folder: Path, *bodies: Sent) -> list[str]:
    engine = ScriptedEngine()
    async with client_of(toy_gateway(folder, engine, template=tool_templates.HERMES)) as client:
        for one in bodies:
            answer = await client.post(one.path, json={"model": MODEL, **one.fields})
            assert answer.status_code == 200, (one.client, answer.text)
    return [request.prompt for request in engine.requests]


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=f"{one.client}{one.path.replace('/', '-')}") for one in BODIES]
)
async def test_a_body_is_answered_or_refused_by_name(tmp_path: Path, one: Sent) -> None:
    """200, or 400 whose `param` is the one part that this server does not do."""
    async with client_of(
        toy_gateway(tmp_path, ScriptedEngine(), template=tool_templates.HERMES)
    ) as client:
        answer = await client.post(one.path, json={"model": MODEL, **one.fields})
    param = answer.json()["error"]["param"] if answer.status_code == 400 else ""
    assert (answer.status_code, param) == (400 if one.refused else 200, one.refused), answer.text


def test_each_client_has_its_source() -> None:
    known = (*client_bodies.SOURCES, client_bodies.RULE)
    rows = (*BODIES, *HISTORIES, *client_bodies.REFUSED)
    assert [one.client for one in rows if not one.client.startswith(known)] == []


@pytest.mark.parametrize(
    "same",
    [HISTORIES, NO_ARGUMENTS, client_bodies.REFUSED],
    ids=["called", "no-arguments", "refused"],
)
async def test_one_conversation_is_one_prompt(tmp_path: Path, same: tuple[Sent, ...]) -> None:
    """However a client writes an earlier call, the model reads the same."""
    prompts = await _prompts(tmp_path, *same)
    assert {one.client: prompt for one, prompt in zip(same, prompts, strict=True)} == dict.fromkeys(
        (one.client for one in same), prompts[0]
    )
    assert "<tool_call>" in prompts[0] or same is client_bodies.REFUSED


async def test_thoughts_are_refused_where_the_template_writes_them(tmp_path: Path) -> None:
    """Without them its prompt would be another; elsewhere they stand in no prompt."""
    template = tool_templates.HERMES + "{{ messages[-1].reasoning_content }}"
    params = {
        "deepseek": "messages[1].reasoning_content",
        "anthropic-blocks": "messages[1].content[0]",
        "litellm-blocks": "messages[1].thinking_blocks",
        "openai-agents-reasoning": "input[2]",
    }
    async with client_of(toy_gateway(tmp_path, ScriptedEngine(), template=template)) as client:
        for one in (one for one in HISTORIES if one.client in params):
            answer = await client.post(one.path, json={"model": MODEL, **one.fields})
            assert (answer.status_code, answer.json()["error"]["param"]) == (
                400,
                params[one.client],
            )


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        (RESPONSE, {"input": [{"type": "item_reference"}]}, "'item_reference'.* function_call_out"),
        (RESPONSE, {"input": [{"role": "user", "content": [{}]}]}, "one of: input_text, "),
        (RESPONSE, {"text": {"format": {}}}, "one of: text, json_object, json_schema"),
        (RESPONSE, {"input": []}, "expected at least 1 item, found 0"),
        (CHAT, {"messages": []}, "expected at least 1 item, found 0"),
        (CHAT, {"messages": [{"role": "user", "content": {}}]}, "expected a text or a list"),
        (
            CHAT,
            {"response_format": {"type": "json_object", "schema": {}}},
            "send `response_format`",
        ),
        (CHAT, {"extra_body": {"top_k": 1}}, "send its fields beside the others"),
        *((CHAT, _turn(image_of=name), OBJECT) for name in ("images", "image", "images_url")),
        *((CHAT, {name: [PNG]}, OBJECT) for name in ("images", "image_data", "attachments")),
        *((CHAT, _turn({"type": one, one: PNG}), OBJECT) for one in ("image", "video", "file")),
        (CHAT, _turn({"type": "input_image", "image_url": PNG}), OBJECT),
        (CHAT, _turn({"type": "image_url", "images_url": PNG}), OBJECT),
        (CHAT, _turn({"type": "text", "text": "hi", "image_url": PNG}), OBJECT),
        (RESPONSE, {"input": [{"type": "input_image", "image_url": PNG}]}, '"image_url": "data:'),
        (RESPONSE, {"input": [TURN | {"images": [PNG]}]}, '"image_url": "data:'),
        (RESPONSE, {"input": [TURN | {"content": [PART]}]}, '"image_url": "data:'),
        (TEXT, {"images": [PNG]}, "POST /v1/chat/completions"),
    ],
)
def test_refusals_say_what_is_expected(path: str, fields: dict[str, Any], words: str) -> None:
    parse, plain = PLAIN[path]
    with pytest.raises(InvalidRequestError) as refusal:
        parse(json.dumps({"model": MODEL, **plain, **fields}).encode(), "application/json")
    assert re.search(words, refusal.value.message)


@pytest.mark.parametrize(
    "text",
    [
        PNG,
        PNG.replace("data:image", "DATA:Image"),
        f" {PNG}\n",
        BASE64,
        "/9j/" + "A" * 99,
        "/9j/" + "A" * 60 + "\r\n" + "A" * 9 + "=",
    ],
)
@pytest.mark.parametrize("role", ["user", "system", "tool", "assistant"])
def test_a_text_that_is_a_file_is_no_text(role: str, text: str) -> None:
    """But an assistant's; what has other words around it is text."""
    for content in (text, [{"type": "text", "text": text}]):
        said = {"messages": [{"role": role, "content": content}]}
        body = json.dumps({"model": MODEL, **said}).encode()
        if role == "assistant":
            parse_chat(body, "")
            continue
        with pytest.raises(InvalidRequestError, match="read letter by letter") as refusal:
            parse_chat(body, "")
        assert refusal.value.param == "messages[0].content"
        written = json.dumps(text.strip())[1:-1].encode()
        for around in (b"what is %s", b"![](%s)", b"%s ?"):
            parse_chat(body.replace(written, around % written), "")


@pytest.mark.parametrize("path", PLAIN)
@pytest.mark.parametrize("name", NOT_USED)
def test_what_is_not_used_is_taken_on_every_path(path: str, name: str) -> None:
    """Null and each value of the table, of this path's own parameters and of others'."""
    parse, plain = PLAIN[path]
    for value in (None, *NOT_USED[name]):
        parse(json.dumps({"model": MODEL, **plain, name: value}).encode(), "application/json")


@pytest.mark.parametrize("path", PLAIN)
@pytest.mark.parametrize("name", ["use_beam_search", "think", "unheard_of"])
def test_what_would_act_elsewhere_is_refused_on_every_path(path: str, name: str) -> None:
    parse, plain = PLAIN[path]
    body = json.dumps({"model": MODEL, **plain, name: True}).encode()
    with pytest.raises(InvalidRequestError) as refusal:
        parse(body, "application/json")
    assert (refusal.value.param, refusal.value.code) == (name, "unknown_parameter")
    assert ("expected false" in str(refusal.value)) is (name in NOT_USED)


def _form(**fields: str) -> bytes:
    parts = {"model": MODEL, **fields}
    texts = [f'name="{name}"\r\n\r\n{text}' for name, text in parts.items()]
    texts.append('name="file"; filename="a.wav"\r\n\r\nx')
    lines = (f"--{BOUNDARY}\r\nContent-Disposition: form-data; {text}\r\n" for text in texts)
    return ("".join(lines) + f"--{BOUNDARY}--\r\n").encode()


@pytest.mark.parametrize("name", OF_OTHER_SERVERS)
def test_what_is_not_used_is_taken_in_forms(name: str) -> None:
    """As JSON or as Python writes it; a field without text is absent."""
    for value in OF_OTHER_SERVERS[name]:
        for text in (json.dumps(value), str(value)):
            parse_transcription(_form(**{name: text}), FORM)
    parse_transcription(_form(**{name: ""}), FORM)


@pytest.mark.parametrize("name", ["language", "temperature", "chunking_strategy", "n", "prompt"])
def test_an_empty_field_of_a_form_is_absent(name: str) -> None:
    request = parse_transcription(_form(**{name: ""}), FORM)
    assert getattr(request, name) is None


async def test_no_mass_is_the_likeliest_token(tmp_path: Path) -> None:
    """`top_p: 0` draws from one token, on every engine: none of them takes the number."""
    engine = ScriptedEngine()
    async with client_of(toy_gateway(tmp_path, engine)) as client:
        for path, (_, plain) in PLAIN.items():
            body = {"model": MODEL, **plain, "temperature": 1, "top_p": 0}
            assert (await client.post(path, json=body)).status_code == 200
    assert {(one.sampling.top_p, one.sampling.top_k) for one in engine.requests} == {(1.0, 1)}
