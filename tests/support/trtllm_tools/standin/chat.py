"""The wire of trtllm-serve: tensorrt_llm/serve/{openai_server,openai_protocol}.py of 1.0 and 1.1.

An answer is fixed, unless a checkpoint answers (`generating`). What a test wants otherwise it says
in the last text, as `order: WORD`.
"""

import base64
import json
import os
import re
import signal
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from arguments import VERSION
from generating import Generator, open_generator
from placeholders import RefusedPromptError, prompt_of
from response_format import RefusedFormError, answer_of
from tools import RefusedToolsError, calls_of, check_tools, conversation

LISTENING = "INFO: Uvicorn running on http://{host}:{port}"

FIELDS = {
    *("messages", "model", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs"),
    *("max_tokens", "n", "presence_penalty", "response_format", "seed", "stop", "stream"),
    *("stream_options", "temperature", "top_p", "tools", "tool_choice", "user", "best_of"),
    *("use_beam_search", "top_k", "min_p", "repetition_penalty", "stop_token_ids"),
    *("ignore_eos", "min_tokens", "skip_special_tokens", "add_generation_prompt"),
    *("chat_template", "chat_template_kwargs"),
    *(() if VERSION.startswith(("0.", "1.0.")) else ("cache_salt",)),
}
"""Of ChatCompletionRequest, which forbids others. `max_tokens` is the alias that it reads:
`max_completion_tokens` is the attribute's name and is refused."""

PNG = b"\x89PNG\r\n\x1a\n"
PIXELS = re.compile(rb"P6 (\d+) (\d+) 255\n")
SLOW_SECONDS = 0.05
LEFT_SECONDS = 1.0
"""How often upstream looks whether a client has gone (await_disconnected)."""

METRICS = """\
# TYPE e2e_request_latency_seconds histogram
e2e_request_latency_seconds_count{{engine_type="undefined",model_name="undefined"}} {count}
# TYPE request_success_total counter
request_success_total{{finished_reason="stop",model_name="undefined"}} {count}
"""


class RefusedError(Exception):
    """A request that upstream answers with 400."""


REFUSALS = (
    *(RefusedError, RefusedFormError, RefusedToolsError),
    RefusedPromptError,
)


class Server(ThreadingHTTPServer):
    """One model's server."""

    daemon_threads = True  # idle connections are closed by the end of the process
    block_on_close = False
    request_queue_size = 128  # uvicorn's is 2048

    def __init__(
        self,
        address: tuple[str, int],
        folder: Path,
        version: str,
        options: dict[str, Any],
    ) -> None:
        self.generator = open_generator(folder)
        super().__init__(address, Handler)
        self.model = folder.name
        self.kind = json.loads((folder / "config.json").read_text())["model_type"]
        self.version = version
        self.guided = options.get("guided_decoding_backend")
        self.shows_metrics = bool(options.get("return_perf_metrics"))
        self.answered = 0
        self.running = 0
        self.lock = threading.Lock()

    def leave(self) -> None:
        threading.Thread(target=self.shutdown, daemon=True).start()

    def finish(self) -> None:
        self.server_close()
        while self.running:
            time.sleep(SLOW_SECONDS)


class Handler(BaseHTTPRequestHandler):
    """The endpoints that probes and a gateway query."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds a connection may be idle: TIMEOUT_KEEP_ALIVE

    def do_GET(self) -> None:
        answers: dict[str, Any] = {
            "/health": "",
            "/version": {"version": self.server.version},
            "/metrics": [],
            "/v1/models": {"object": "list", "data": [{"id": self.server.model}]},
        }
        if self.server.shows_metrics:
            answers["/prometheus/metrics"] = METRICS.format(count=self.server.answered)
        if self.path in answers:
            self._send(200, answers[self.path])
        else:
            self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self._content()
        if self.path != "/v1/chat/completions":
            self._send(404, {"detail": "Not Found"})
            return
        try:
            body = json.loads(content)
            chat = Chat(body, self.server)
        except (*REFUSALS, ValueError, KeyError, TypeError) as error:
            refused = {"object": "error", "message": str(error), "type": "BadRequestError"}
            self._send(400, {**refused, "param": None, "code": 400})
            return
        _report(f"request {json.dumps(chat.reported, sort_keys=True)}")
        _report(f"prompt {json.dumps(chat.prompt.text)}")
        self._count(running=1)
        try:
            if chat.stream:
                self._stream(chat)
            else:
                self._send(200, chat.complete(self.server.model))
            self._count(answered=1)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
            _report("client is disconnected, abort")
        finally:
            self._count(running=-1)

    def _content(self) -> bytes:
        """Return the body; one in pieces ends with an empty one."""
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers["content-length"]))
        pieces = []
        self.connection.settimeout(None)  # uvicorn's bound is of idle connections alone
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        self.connection.settimeout(self.timeout)
        return b"".join(pieces)

    def _count(self, *, running: int = 0, answered: int = 0) -> None:
        with self.server.lock:
            self.server.running += running
            self.server.answered += answered

    def _stream(self, chat: "Chat") -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        # With a space before the newlines, as upstream writes this one alone.
        self._event(chat.chunk(self.server.model, {"role": "assistant"}), end=" \n\n")
        words = chat.words
        for number, word in enumerate(words):
            if chat.order in {"slow", "count"}:
                time.sleep(SLOW_SECONDS)
            if chat.order == "hang" and number == 1:
                self._wait_for_the_client()
            if chat.order == "die" and number == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            last = number == len(words) - 1
            reason = chat.reason if last else None
            scores = chat.scores[number : number + 1]
            self._event(chat.chunk(self.server.model, {"content": word}, reason, scores))
        if chat.with_usage:
            usage = {**chat.chunk(self.server.model), "choices": [], "usage": chat.usage}
            self._event(usage)
        self._piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _wait_for_the_client(self) -> None:
        while True:
            time.sleep(LEFT_SECONDS)
            self._piece(b": nothing yet\n\n")

    def _event(self, chunk: dict[str, Any], end: str = "\n\n") -> None:
        self._piece(f"data: {json.dumps(chunk)}{end}".encode())

    def _piece(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing: a probe a second is not a log."""

    def _send(self, code: int, answer: Any) -> None:
        text = isinstance(answer, str)
        content = (answer if text else json.dumps(answer)).encode()
        self.send_response(code)
        self.send_header("content-type", "text/plain" if text else "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Chat:
    """One request, checked as upstream checks it."""

    def __init__(self, body: dict[str, Any], server: Server) -> None:
        if foreign := set(body) - FIELDS:
            raise RefusedError(f"{min(foreign)}: Extra inputs are not permitted")
        self.stream = bool(body.get("stream"))
        options = body.get("stream_options") or {}
        if options and not self.stream:
            raise RefusedError("stream_options can only be set if stream is true")
        self.with_usage = bool(options.get("include_usage"))
        check_tools(body)
        messages = body["messages"]
        kept = conversation(messages)
        texts, images = _read(messages)
        self.prompt = prompt_of(body, server.kind)
        if self.prompt.template is not None:
            texts = [self.prompt.text]
        self.order = texts[-1].partition("order: ")[2].split(" ")[0] if texts else ""
        if self.order == "fail":
            raise RefusedError("The model had the order to fail.\nWith more than one line.")
        limit = body.get("max_tokens") or 1000
        words = f"A recorded answer about {len(images)} images.".split()
        if self.order == "count":
            words = [str(number) for number in range(1, limit + 2)]
        formed = answer_of(body.get("response_format"), server.guided)
        if formed is not None:
            words = [formed if isinstance(formed, str) else json.dumps(formed["json"])]
        # What ends an answer by itself has no text, and is not counted.
        spaced = [word if not at else f" {word}" for at, word in enumerate(words)]
        if self.order == "call":
            spaced = calls_of(body.get("tools") or [])
        self.scores: list[dict[str, Any]] = []
        if server.generator is not None:
            if body.get("tools"):
                raise RefusedToolsError("tools are not recorded where a checkpoint answers")
            given = [part for one in messages for part in _images(one["content"])]
            scored = bool(body.get("logprobs"))
            spaced = self._generate(server.generator, given, limit, scored=scored)
        self.reason = "length" if len(spaced) > limit else "stop"
        self.words = spaced[:limit] if self.reason == "length" else [*spaced, ""]
        self.usage = {
            "prompt_tokens": sum(len(text.split()) for text in texts),
            "completion_tokens": min(len(spaced), limit),
        }
        self.usage["total_tokens"] = sum(self.usage.values())
        written = {"messages", "chat_template", "chat_template_kwargs"}
        requested = {name: body[name] for name in sorted(set(body) - written)}
        self.reported = {"roles": [one["role"] for one in messages], "images": images, **requested}
        self.reported |= {"kept": kept} if any(kept) else {}

    def _generate(
        self, generator: Generator, images: list[str], limit: int, *, scored: bool
    ) -> list[str]:
        """Return the texts of tokens; one more than the limit where the answer has not ended."""
        made = list(generator.tokens(self.prompt, images, limit))
        ended = made[-1][1] is None
        for text, log_prob in made if scored else ():
            if log_prob is not None:
                one = {"token": text, "logprob": log_prob, "bytes": list(text.encode())}
                self.scores.append({**one, "top_logprobs": []})
        texts = [text for text, _ in made]
        return texts[:-1] if ended else [*texts, ""]

    def complete(self, model: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(self.words)}
        choice = {"index": 0, "message": message, "finish_reason": self.reason}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": int(time.time())}
        return {**head, "model": model, "choices": [choice], "usage": self.usage}

    def chunk(
        self,
        model: str,
        delta: dict[str, str] | None = None,
        reason: str | None = None,
        scores: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Return one event; fields without a value are left out, as upstream does."""
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": int(time.time())}
        choice: dict[str, Any] = {"index": 0, "delta": delta or {}}
        if scores:
            choice["logprobs"] = {"content": scores}
        if reason:
            choice["finish_reason"] = reason
        return {**head, "model": model, "choices": [choice]}


def _read(messages: list[dict[str, Any]]) -> tuple[list[str], list[list[int]]]:
    """Return the texts, and the sizes of the images."""
    texts: list[str] = []
    images: list[list[int]] = []
    for message in messages:
        content = message["content"]
        for part in [content] if isinstance(content, str) else content:
            if isinstance(part, str):
                texts.append(part)
            elif part["type"] == "text":
                texts.append(part["text"])
            elif part["type"] == "image_url":
                images.append(_size(part["image_url"]["url"]))
            else:
                raise RefusedError(f"Unknown part type: {part['type']}")
    return texts, images


def _images(content: Any) -> list[str]:
    parts = [] if isinstance(content, str) else content
    return [part["image_url"]["url"] for part in parts if "image_url" in part]


def _report(text: str) -> None:
    sys.stdout.write(f"[TRT-LLM] [I] {text}\n")
    sys.stdout.flush()


def _size(url: str) -> list[int]:
    content = base64.b64decode(url.partition(",")[2], validate=True)
    if content.startswith(PNG):
        return list(struct.unpack(">II", content[16:24]))
    if found := PIXELS.match(content):
        return [int(side) for side in found.groups()]
    raise RefusedError("cannot identify image file")
