"""PURE: Triton's message about a request that failed -> the error for the gateway's client.

A stream carries text alone. The header that would end it with its status (`triton_grpc_error`)
makes Triton 2.51 write to memory it has freed: under requests that are refused tritonserver dies of
a corrupted heap within seconds. So our models begin their messages with their code's name, and what
the server itself says is known by its words (triton-inference-server/core, r24.10).
"""

import re

from mm_runtime.gateway.errors import (
    GatewayError,
    InvalidRequestError,
    engine_failed,
    engine_unavailable,
)
from mm_runtime.repository.configs.gateway_inputs import GUIDE
from mm_runtime.serving.errors import INVALID_ARGUMENT, QUEUE_FULL, UNAVAILABLE

_COMING_BACK = (
    QUEUE_FULL,
    "Server not ready",  # server.cc: it starts or stops
    "stopped accepting new inference requests",  # dynamic_batch_scheduler.cc: the model unloads
    "is not healthy",  # python_be.cc: a model's process died, or had no core for a second
    "Request for unknown model",  # model_repository_manager.cc: the model is not loaded yet
)
_OF_FORMS = re.compile(
    r"GuidedDecod|uided decoding|xgrammar|EBNF"
    r"|(?:regex_converter|json_schema_converter|grammar_parser)\.cc:\d+: "
)
"""In messages of TensorRT-LLM's backend about a form that it does not take; its grammar library
names the place in its sources, behind the time."""

_REASON_CHARACTERS = 300
"""Characters of such a message that are passed on: it may hold an entire schema."""


def reported_error(model: str, message: str, form_param: str | None = None) -> GatewayError:
    """Return the error for an answer that is one. Only words about the request are passed on.

    `model`: the model that was called; clients know nothing of its name or its parts. `form_param`:
    the parameter that states the form of the answer, where there is one.
    """
    message = message.removeprefix(f"in ensemble '{model}', ")
    if message.startswith(INVALID_ARGUMENT):
        reason = message.removeprefix(INVALID_ARGUMENT)
        if form_param and reason.startswith(GUIDE):
            text = f"The model refused `{form_param}`: {reason}."
            return InvalidRequestError(text, param=form_param)
        return InvalidRequestError(f"The model refused the request: {reason}.")
    if found := _OF_FORMS.search(message):
        said = message[found.end() :] if found[0].endswith(": ") else message
        reason = said.strip().partition("\n")[0][:_REASON_CHARACTERS]
        text = f"The model refused the form of the answer: {reason}."
        return InvalidRequestError(text, param=form_param)
    if message.startswith(UNAVAILABLE) or any(words in message for words in _COMING_BACK):
        return engine_unavailable()
    return engine_failed()
