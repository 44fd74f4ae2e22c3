"""The gateway's client of trtllm-serve, on the wire of its openai_protocol.py."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_api.gateway_memory import encoding_bytes
from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.openai_server.body import (
    ChatBody,
    Files,
    Part,
    conversation,
    media_parts,
    sampling_fields,
    written_prompt,
)
from mm_runtime.backends.openai_server.client import MESSAGE_CHARACTERS, OpenAiServerEngine
from mm_runtime.backends.trtllm.forms import JSON_SCHEMA, REGEX, forms_of_version
from mm_runtime.base.chat_template import Media, TemplateRefusedError, Tool, Turn
from mm_runtime.gateway.backends.backend import Capabilities
from mm_runtime.gateway.backends.engine import EngineRequest, Form
from mm_runtime.gateway.prompts.loading import load_turn_writer
from mm_runtime.serving.directory import EngineDirectory

_FORM_ERROR = "Guided decoding error: "
"""Begins what the server says of a grammar that its library refused, since 1.2."""

WriteTurns = Callable[[Sequence[Turn], Sequence[Tool]], str]
"""Writes the prompt of a conversation in which functions are offered; may raise
TemplateRefusedError."""


@dataclass(frozen=True, slots=True)
class TrtllmServeDialect:
    """Implements `mm_runtime.backends.openai_server.client.Dialect` for trtllm-serve.

    Attributes:
        model: the name that the server knows.
        takes_salt: the server knows `cache_salt`.
        write: of a conversation with media, whose prompt it is sent along with; None: the server
            writes them all.
    """

    model: str
    takes_salt: bool = True
    write: WriteTurns | None = None

    @property
    def waits(self) -> bool:
        return self.write is not None

    def body(self, request: EngineRequest) -> ChatBody:
        """Return the body of a request; images are their pixels.

        Raises:
            InvalidRequestError: a version without `cache_salt`, or a template refuses it.
        """
        if request.cache_salt and not self.takes_salt:
            # Served without it, others could learn from delays what this client has sent.
            raise InvalidRequestError(
                "The model's TensorRT-LLM keeps no caches apart: it knows `cache_salt` since 1.1. "
                "Leave the field out, or have the model served by a newer one.",
                param="cache_salt",
            )
        files = Files()
        parts = media_parts(request, files)
        if self.write is None or not request.images:
            fields = conversation(request, parts)
        else:
            fields = _written(request, parts, self.write)
        body: dict[str, Any] = {"model": self.model, **fields, **sampling_fields(request)}
        if request.form is not None:
            body["response_format"] = _response_format(request.form)
        return files.body(body)

    def refusal(self, event: str) -> str | None:
        _, found, reason = event.partition(_FORM_ERROR)
        reason = reason.partition("\\n")[0][:MESSAGE_CHARACTERS]
        return f"The model refused the form of the answer: {reason}." if found else None


def _written(
    request: EngineRequest, parts: Mapping[Media, Iterator[Part]], write: WriteTurns
) -> dict[str, Any]:
    """Return the fields of a conversation that is written here: its media, and a template of it.

    The server would put the placeholders of all media that it has seen so far in front of each
    message, the assistant's too (1.1 and 1.2, until pull request 11461), or all of them in front of
    the last one (1.0), and join the texts of a message behind them (parse_chat_messages_coroutines
    of tensorrt_llm/serve/chat_utils.py). A template of the request wins over the checkpoint's
    (`resolve_hf_chat_template` of tensorrt_llm/inputs/utils.py).
    """
    media = [part for turn in request.turns for part in turn.parts if isinstance(part, Media)]
    try:
        prompt = write(request.turns, request.tools)
    except TemplateRefusedError as error:
        raise InvalidRequestError(f"`messages`: {error}.", param="messages") from error
    return written_prompt(prompt, [next(parts[one]) for one in media])


def _response_format(form: Form) -> dict[str, Any]:
    """Return a form as every version that has its kind reads it.

    OpenAI's own `json_schema` has a wrapper around the schema, which some versions take for it.
    """
    if form.kind == JSON_SCHEMA:
        return {"type": "json", "schema": json.loads(form.text)}
    kind = "regex" if form.kind == REGEX else "ebnf"
    return {"type": kind, kind: form.text}


_XGRAMMAR = "xgrammar"
"""The grammar library that both of TensorRT-LLM's servers have."""


def capabilities_of(serving: ServingPlan) -> Capabilities:
    """Return what trtllm-serve of a plan does."""
    plan = _planned(serving)
    library = plan.options.get("guided_decoding_backend")
    other = (
        f"trtllm-serve runs with guided_decoding_backend {library or '(none)'}, not {_XGRAMMAR}: "
        "spec.engine.guidedDecoding must not be Off."
    )
    drops = (
        "trtllm-serve passes calls of earlier answers on since TensorRT-LLM 1.2, and the model's "
        f"server is {plan.version}, which drops them: write them and what they have found as "
        "text, or have the model served by a newer image."
    )
    return Capabilities(
        forms_of_version(plan.version, "" if library == _XGRAMMAR else other),
        writes_prompts=True,
        isolates_salts=plan.takes_salt,
        calls_missing="" if plan.keeps_calls else drops,
    )


def _planned(serving: ServingPlan) -> TrtllmServe:
    if serving.trtllm_serve is None:
        raise ValueError("the serving plan does not say how trtllm-serve is called")
    return serving.trtllm_serve


def open_trtllm_serve(
    directory: EngineDirectory, serving: ServingPlan, address: str
) -> OpenAiServerEngine:
    """Return the engine at host:port, or where the plan has it listen; no request is sent yet.

    Raises:
        OSError, ValueError: the engine's tokenizer or chat template is missing or unusable, or the
            server would drop its adapters.
    """
    plan = _planned(serving)
    if directory.manifest.plan.adapters:
        # It would answer requests with one as the checkpoint alone, without an error.
        raise ValueError(
            "the engine has LoRA adapters, which are not applied on PyTorch: it comes from another"
            " version of the operator, which has to plan again"
        )
    dialect = TrtllmServeDialect(
        serving.model,
        takes_salt=plan.takes_salt,
        write=load_turn_writer(directory) if plan.takes_templates else None,
    )
    return OpenAiServerEngine(
        address or f"127.0.0.1:{plan.port}",
        dialect,
        request_seconds=serving.gateway.request_timeout_seconds,
        encoding_bytes=encoding_bytes(serving.gateway),
    )
