"""Generated requests on their way to gateways, and what is claimed of every answer."""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import httpx

from support.answer_checks import check_answer, events_of
from support.audio_files import encode_audio, noise
from support.gateways import MODEL
from support.generated_requests import Generated, Generator, form
from support.images import data_url, encode, plain_image

AUDIO = "/v1/audio/"
HANGS_SECONDS = 60
SHOWN = 4000
"""Characters of a request and of its answer, where a check failed."""

STATUSES = {200, 400, 404, 413, 429}
_IMAGE = data_url(encode(plain_image()))
KNOWN: Mapping[str, Sequence[Any]] = {
    "model": (MODEL,),
    "url": (_IMAGE,),
    "image_url": (_IMAGE, {"url": _IMAGE}),
    "prompt": ("what is it ?", "x", "<s>red", ["a", "b"], ["c"] * 3),
    "file": (encode_audio(noise(0.3, seed=1)), encode_audio(noise(1.4, seed=2), "flac", "flac")),
    "language": ("en", "de"),
    "arguments": ('{"a": [1, "x"]}', "{}", ""),
    "stop": ("red", ["<tool", "y"], [" word word"]),
    "stop_token_ids": ([], [1, 2]),
    "logit_bias": ({}, {"1": 5, "2": -100}),
    "regex": ("(a|b)*",),
    "json": ({"type": "object"}, '{"type": "string"}'),
    "chat_template_kwargs": ({}, {"style": "short"}, {"x": [1, {"b": None}]}),
}
"""What means something to the gateway."""

RARE = frozenset({"VideoPart", "InputAudioPart", "AudioPart"})
"""What the model does not take."""

OFTEN = frozenset({"stream", "tools", "n", "logprobs", "echo"})
"""What makes an answer another."""

_OF_SCHEMAS = re.compile("is invalid: [a-z ]+ should|is missing|is unknown|of unknown type")
"""Refusals of a type, a bound or a name; how fields go together no document of ours states."""


@dataclass
class Clients:
    """Clients of gateways, and what they have been answered.

    Attributes:
        own: whether a path is one of audio -> the client of the gateway that serves it.
        generator: of the requests.
        refuses_late: a stream may end with a refusal: the model cannot write what is requested.
        found: statuses of requests, by path.
        twins: requests that were sent once more, for a stream of the same answer.
    """

    own: Mapping[bool, httpx.AsyncClient]
    generator: Generator
    refuses_late: bool = False
    found: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    twins: int = 0

    @property
    def total(self) -> int:
        return sum(one.total() for one in self.found.values())

    async def send(self, one: Generated, *, strays: bool = False, has_twin: bool = False) -> None:
        """Send a request, and its twin where it has one; check both answers."""
        answer = await self._answer(one, strays=strays)
        self.found[one.path][answer.status_code] += 1
        if not has_twin or one.broken or answer.status_code != httpx.codes.OK:
            return
        twin = twin_of(one.path, one.value)
        if twin is not None:
            streamed = await self._answer(_with(one, twin), strays=strays)
            assert streamed.status_code == httpx.codes.OK, (twin, streamed.text)
            is_json = answer.headers["content-type"] == "application/json"
            found = of_full(one.path, answer.text, answer.json() if is_json else None)
            expected = of_stream(one.path, events_of(streamed.text))
            assert expected == found, f"{expected}\n{found}\n{str(one)[:SHOWN]}"
            self.twins += 1

    async def _answer(self, one: Generated, *, strays: bool) -> httpx.Response:
        client = self.own[one.path.startswith(AUDIO) is not strays]
        async with asyncio.timeout(HANGS_SECONDS):
            answer = await client.post(
                one.path, content=one.body, headers={"content-type": one.content_type}
            )
        try:
            self._check(one, answer)
        except Exception as error:
            error.add_note(f"{str(one)[:SHOWN]}\n{answer.status_code} {answer.text[:SHOWN]}")
            raise
        return answer

    def _check(self, one: Generated, answer: httpx.Response) -> None:
        assert answer.status_code in STATUSES
        check_answer(one, answer, self.generator.document, refuses_late=self.refuses_late)
        assert one.broken or not _OF_SCHEMAS.search(answer.text), "the document admits it"


def _with(one: Generated, value: dict[str, Any]) -> Generated:
    if one.path.startswith(AUDIO):
        kind, body = form(value)
        return replace(one, value=value, content_type=kind, body=body)
    return replace(one, value=value, body=json.dumps(value).encode())


async def reach_real(
    client: httpx.AsyncClient, model: str, count: int, seed: int, most_tokens: int | None = None
) -> Clients:
    """Send so many requests to a gateway of a real server, which is ready afterwards, too.

    `most_tokens`: of requests that say no limit.
    """
    known = {
        **KNOWN,
        "model": (model,),
        "max_tokens": (1, 2, 5),
        "max_completion_tokens": (1, 3, 6),
        "max_output_tokens": (1, 4, 8),
        "prompt": ("what is it ?", "What color is", ["a", "b"]),
    }
    document = (await client.get("/openapi.json")).json()
    generator = Generator(document, known, seed, RARE, OFTEN)
    clients = Clients({False: client, True: client}, generator, refuses_late=True)
    requests = generator.requests(count)
    while together := [*islice(requests, 4)]:
        async with asyncio.TaskGroup() as group:
            for one in together:
                named = "max_output_tokens" if one.path == "/v1/responses" else "max_tokens"
                bounds = not (one.broken or one.path.startswith(AUDIO) or "max_" in str(one.value))
                if most_tokens and bounds:
                    group.create_task(clients.send(_with(one, one.value | {named: most_tokens})))
                else:
                    group.create_task(clients.send(one))
    assert clients.total == count
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    return clients


Value = dict[str, Any]


def twin_of(path: str, value: Mapping[str, Any]) -> Value | None:
    """Return the request for a stream of what a request wants at once; None: there is no stream."""
    if value.get("stream"):
        return None
    twin = {**value, "stream": True}
    if path.startswith("/v1/audio/"):
        forms = {"json", "text", None}
        return twin if value.get("response_format") in forms else None
    if path != "/v1/responses":
        twin["stream_options"] = {"include_usage": True}
    return twin


def of_full(path: str, answer: str, body: Mapping[str, Any] | None) -> object:
    """Return what an answer says.

    Args:
        path: of the request.
        answer: its text.
        body: its JSON; None: it is plain text.
    """
    if path.startswith("/v1/audio/"):
        return (answer if body is None else str(body["text"])).strip()
    assert body is not None
    if path == "/v1/responses":
        return _response(body)
    of_choice = _message if path == "/v1/chat/completions" else _text
    return [of_choice(one) for one in body["choices"]], body["usage"]


def of_stream(path: str, events: Sequence[Mapping[str, Any]]) -> object:
    """Return what the events of a stream say together."""
    if path.startswith("/v1/audio/"):
        return events[-1]["text"]
    if path == "/v1/responses":
        return _response(events[-1]["response"])
    usage = events[-1]["usage"]
    chunks = [event["choices"][0] for event in events[:-1]]
    choices = [
        [one for one in chunks if one["index"] == index]
        for index in range(1 + max(one["index"] for one in chunks))
    ]
    joined = _joined_message if path == "/v1/chat/completions" else _joined_text
    return [joined(one) for one in choices], usage


def _response(body: Mapping[str, Any]) -> object:
    items = [
        (one["status"], one.get("name"), one.get("arguments"))
        if one["type"] == "function_call"
        else (one["status"], one["content"][0]["text"])
        for one in body["output"]
    ]
    return items, body["status"], body["usage"]


def _message(choice: Mapping[str, Any]) -> Value:
    message, scores = choice["message"], choice["logprobs"]
    called = [one["function"] for one in message.get("tool_calls", ())]
    return {
        "content": message["content"] or "",
        "calls": [(one["name"], one["arguments"]) for one in called],
        "reason": choice["finish_reason"],
        "scores": (scores or {}).get("content") or None,
    }


def _joined_message(chunks: Sequence[Mapping[str, Any]]) -> Value:
    content = "".join(one["delta"].get("content") or "" for one in chunks)
    calls: list[list[str]] = []
    for part in (part for one in chunks for part in one["delta"].get("tool_calls", ())):
        if part["index"] == len(calls):
            calls.append([part["function"]["name"], ""])
        calls[part["index"]][1] += part["function"]["arguments"]
    scored = [one["logprobs"] for one in chunks if one["logprobs"] is not None]
    return {
        "content": content if content.strip() or not calls else "",
        "calls": [(name, arguments) for name, arguments in calls],
        "reason": chunks[-1]["finish_reason"],
        "scores": [score for one in scored for score in one["content"]] or None,
    }


def _text(choice: Mapping[str, Any]) -> Value:
    scores = choice["logprobs"]
    if scores is not None and not scores["tokens"]:
        scores = None  # no chunk says that there are none
    return {"text": choice["text"], "reason": choice["finish_reason"], "scores": scores}


def _joined_text(chunks: Sequence[Mapping[str, Any]]) -> Value:
    scored = [one["logprobs"] for one in chunks if one["logprobs"] is not None]
    names = [*scored[0]] if scored else []
    scores = {name: [one for part in scored for one in part[name]] for name in names} or None
    text = "".join(one["text"] for one in chunks)
    return {"text": text, "reason": chunks[-1]["finish_reason"], "scores": scores}
