"""Every parameter of completions and the backends on which it acts: refusals, and a docs page.

A parameter that does not act somewhere is refused there by name. Where no backend serves one, it is
read all the same, with the one value that clients send who do not use it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel

from mm_api.backends import BACKENDS, PYTORCH, REFERENCE, TENSORRT
from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.audio import TranscriptionRequest
from mm_runtime.gateway.api.openai import (
    ChatRequest,
    CompletionRequest,
    SampledRequest,
)
from mm_runtime.gateway.api.unused import NOT_USED, is_unused

_ALL, _NONE = frozenset[str](BACKENDS), frozenset[str]()
_NOT_PYTORCH = _ALL - {PYTORCH.name}
_ONLY_REFERENCE = frozenset({REFERENCE.name})
_NOT_TENSORRT = _ALL - {TENSORRT.name}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: where it acts, and values besides null of clients that do not use it."""

    acts: frozenset[str]
    says: str = ""
    unused: tuple[object, ...] = ()


def _table(rows: Mapping[str, Parameter]) -> Mapping[str, Parameter]:
    """Return a table with the values of `unused`; they are all that acts nowhere can say."""
    found: dict[str, Parameter] = {}
    for name, one in rows.items():
        unused = NOT_USED.get(name, ())
        accepted = ", ".join(f"`{json.dumps(value)}`" for value in unused) or "null"
        found[name] = replace(one, unused=unused, says=one.says or accepted)
    return found


_LABEL = "a label without effect on the answer"

_CHATS_AND_TEXTS: Mapping[str, Parameter] = {
    "model": Parameter(_ALL, "the model, or one of its LoRA adapters"),
    "messages": Parameter(_ALL, "the conversation; images and videos of families that see them"),
    "prompt": Parameter(_NOT_PYTORCH, "a text, or several, each of which is answered"),
    "max_tokens": Parameter(_ALL, "most tokens of an answer"),
    "max_completion_tokens": Parameter(_ALL, "as `max_tokens`, and takes precedence"),
    "temperature": Parameter(_ALL, "0: the likeliest token"),
    "top_p": Parameter(_ALL, "mass of the tokens that are drawn from; 0: the likeliest token"),
    "top_k": Parameter(_ALL, "number of the tokens that are drawn from; 0, -1: all"),
    "min_p": Parameter(_NOT_TENSORRT, "least part of the likeliest token's probability"),
    "seed": Parameter(_ALL, "the same answer again, from the same engine"),
    "presence_penalty": Parameter(_ALL, "subtracted from logits of tokens of the answer"),
    "frequency_penalty": Parameter(_ALL, "the same, for each time"),
    "repetition_penalty": Parameter(_ALL, "divides logits of tokens of prompt and answer"),
    "logit_bias": Parameter(_ALL, "token id -> what is added to its logit"),
    "min_tokens": Parameter(_ALL, "no end before so many"),
    "ignore_eos": Parameter(_ALL, "generation continues after the end token"),
    "stop": Parameter(_ALL, "up to 4 texts that end the answer"),
    "stop_token_ids": Parameter(_ALL, "tokens that end the answer"),
    "skip_special_tokens": Parameter(_ALL, "false: special tokens have text"),
    "n": Parameter(_ALL, "answers to each prompt; each takes a place"),
    "logprobs": Parameter(_ALL, "log probability of each token, before any sampling rule"),
    "top_logprobs": Parameter(_NOT_TENSORRT, "the same of the likeliest tokens"),
    "stream": Parameter(_ALL, "server-sent events"),
    "stream_options": Parameter(_ALL, "`include_usage`, `continuous_usage_stats`"),
    "response_format": Parameter(_ALL, "`json_object`, `json_schema`, `text`"),
    "structured_outputs": Parameter(
        _ALL,
        "one of `json` (a schema, or a text of one), `json_object`, `regex` and `choice` (texts of "
        "which the answer is one), as vLLM spells them",
    ),
    "tools": Parameter(
        _ALL,
        "functions that the model may call, where its chat template has tools; calls of earlier "
        "answers in `messages`, on PyTorch since 1.2",
    ),
    "tool_choice": Parameter(
        _ALL,
        "`required`, or the function that is called, on TensorRT and PyTorch of models that write "
        "calls as bare JSON (Llama 3); `none` and `auto` act where `tools` do",
    ),
    "parallel_tool_calls": Parameter(_ALL, "false: one call at the most"),
    "chat_template_kwargs": Parameter(_NOT_PYTORCH, "variables of the chat template"),
    "store": Parameter(_NONE),
    "service_tier": Parameter(_NONE),
    **dict.fromkeys(
        (
            *("audio", "best_of", "function_call", "functions", "modalities"),
            *("prediction", "reasoning_effort", "suffix", "verbosity", "web_search_options"),
        ),
        Parameter(_NONE),
    ),
    "cache_salt": Parameter(
        _ALL,
        "features of images, keys and values of prompts are shared with the same salt only",
    ),
    **dict.fromkeys(
        ("user", "metadata", "safety_identifier", "prompt_cache_key"), Parameter(_ALL, _LABEL)
    ),
}
PARAMETERS = _table(_CHATS_AND_TEXTS)

_RESPONSES: Mapping[str, Parameter] = {
    "model": PARAMETERS["model"],
    "input": Parameter(_ALL, "a text, or messages, calls and what they have found"),
    "instructions": Parameter(_ALL, "a message of the role system before all others"),
    "max_output_tokens": Parameter(_ALL, "most tokens of an answer"),
    **{name: PARAMETERS[name] for name in ("temperature", "top_p", "stream")},
    "text": Parameter(_ALL, "`format`: `json_object`, `json_schema`, `text`"),
    **{name: PARAMETERS[name] for name in ("tools", "tool_choice", "parallel_tool_calls")},
    **{name: PARAMETERS[name] for name in ("store", "service_tier")},
    "stream_options": Parameter(_NONE, "`include_obfuscation` false"),
    "background": Parameter(_NONE),
    "include": Parameter(_NONE),
    "truncation": Parameter(_NONE),
    **dict.fromkeys(
        ("previous_response_id", "conversation", "max_tool_calls", "prompt", "reasoning"),
        Parameter(_NONE),
    ),
    **dict.fromkeys(
        ("metadata", "user", "safety_identifier", "prompt_cache_key"), Parameter(_ALL, _LABEL)
    ),
}
RESPONSE_PARAMETERS = _table(_RESPONSES)
"""Parameters of `/v1/responses`; a request acts as the chat that it means."""


def _of_audio(*names: str) -> dict[str, Parameter]:
    found = {name: PARAMETERS[name] for name in names}
    return {name: replace(one, acts=one.acts & _NOT_PYTORCH) for name, one in found.items()}


_AUDIO: Mapping[str, Parameter] = {
    "model": PARAMETERS["model"],
    "file": Parameter(_NOT_PYTORCH, "audio; of any length up to ten minutes on Reference"),
    "language": Parameter(_NOT_PYTORCH, "of the audio; without it Reference detects it"),
    "to_language": Parameter(_NOT_PYTORCH, '`"en"`, of translations'),
    "max_tokens": Parameter(_NOT_PYTORCH, "most tokens of an answer, of all windows together"),
    "max_completion_tokens": Parameter(_NOT_PYTORCH, "as `max_tokens`, and takes precedence"),
    "temperature": Parameter(_NOT_PYTORCH, "0: the likeliest token; no fall-back to higher ones"),
    **_of_audio("top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty"),
    **_of_audio("repetition_penalty"),
    "stop": Parameter(_NOT_PYTORCH, "up to 4 texts that end the answer; none with time stamps"),
    "n": Parameter(_NOT_PYTORCH, "1"),
    "stream": Parameter(_NOT_PYTORCH, "events of text; of longer audio one for each window"),
    "response_format": Parameter(
        _NOT_PYTORCH, "`json`, `text`, `verbose_json`; `srt`, `vtt` on Reference"
    ),
    "timestamp_granularities": Parameter(
        _ONLY_REFERENCE, '`["segment"]`, with `verbose_json`; `word` is refused by name'
    ),
    "cache_salt": Parameter(_NOT_PYTORCH, "nothing of audio is kept: requests share nothing"),
    **_of_audio("user"),
    **dict.fromkeys(
        (
            *("chunking_strategy", "include", "keywords", "known_speaker_names"),
            *("known_speaker_references", "languages", "prompt", "stream_options"),
        ),
        Parameter(_NONE),
    ),
}
AUDIO_PARAMETERS = _table(_AUDIO)
"""Parameters of transcriptions and translations."""

_PARAMETERS = [*PARAMETERS.items(), *RESPONSE_PARAMETERS.items(), *AUDIO_PARAMETERS.items()]
NOT_SERVED = {name for name, _ in _PARAMETERS} - {name for name, one in _PARAMETERS if one.acts}
"""Accepted with some values only, on every path."""


def refuse_unserved(request: BaseModel, backend: str, *, calls_missing: str = "") -> None:
    """Refuse a parameter that does not act on a backend.

    `calls_missing`: why calls of earlier answers do not reach the prompt; empty: they do.

    Raises:
        InvalidRequestError: names the first one, in the order of the wire types.
    """
    if not isinstance(request, SampledRequest | TranscriptionRequest):
        return
    table = AUDIO_PARAMETERS if isinstance(request, TranscriptionRequest) else PARAMETERS
    if calls_missing and isinstance(request, ChatRequest):
        _refuse_calls(request, calls_missing)
    for name in filter(request.model_fields_set.__contains__, type(request).model_fields):
        parameter, value = table[name], getattr(request, name)
        if backend in parameter.acts or is_unused(value, parameter.unused):
            continue
        if parameter.acts:  # elsewhere; what acts nowhere was refused when it was read
            raise InvalidRequestError(
                f"`{name}` is not served by this model's backend, {backend}: only by "
                f"{', '.join(sorted(parameter.acts))}. Leave it out.",
                param=name,
                code="unsupported_parameter",
            )


def _refuse_calls(request: ChatRequest, reason: str) -> None:
    for number, message in enumerate(request.messages):
        if message.tool_calls:
            raise InvalidRequestError(
                f"`messages[{number}].tool_calls`: {reason}",
                param=f"messages[{number}].tool_calls",
                code="unsupported_parameter",
            )


def endpoints_of(name: str) -> tuple[str, ...]:
    chat, completions = ChatRequest.model_fields, CompletionRequest.model_fields
    kinds = {"/v1/chat/completions": chat, "/v1/completions": completions}
    return tuple(path for path, fields in kinds.items() if name in fields)
