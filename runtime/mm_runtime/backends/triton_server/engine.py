"""The engine behind Triton's gRPC.

Uses `token_ensemble`, and `scored_ensemble` where scores of tokens are wanted; always as a stream
(plain answers are collected by the caller): that is the only call a decoupled ensemble answers.

A stream carries text alone. The header that would end it with its status (`triton_grpc_error`)
makes Triton 2.51 write to memory it has freed: under requests that are refused tritonserver dies of
a corrupted heap within seconds. So our models begin their messages with their code's name, and what
the server itself says is known by its words (triton-inference-server/core, r24.10).
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from struct import Struct, unpack_from
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from mm_api.documents.serving_plan import ServingPlan
from mm_edge.errors import GatewayError, InvalidRequestError
from mm_runtime.backends.triton_server.client import Tensor, TritonClient, tensor_of
from mm_runtime.backends.triton_server.inputs import (
    build_inputs,
)
from mm_runtime.backends.triton_server.stream import ReportedError, TritonStream
from mm_runtime.base.trtllm_names import has_newer_names
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.backends.token_text import Decode, TokenText
from mm_runtime.gateway.errors import engine_failed, engine_unavailable
from mm_runtime.repository.configs.gateway_inputs import GUIDE
from mm_runtime.repository.configs.scored_ensemble import (
    LIKELIEST_IDS,
    LIKELIEST_LOG_PROBS,
    LOG_PROBS,
)
from mm_runtime.repository.configs.scored_ensemble import NAME as SCORED
from mm_runtime.repository.configs.tensorrt_llm import REUSED
from mm_runtime.repository.configs.token_ensemble import IDS, LENGTH, LOGITS
from mm_runtime.repository.configs.token_ensemble import NAME as ENSEMBLE
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import INVALID_ARGUMENT, QUEUE_FULL, UNAVAILABLE
from mm_runtime.serving.prompts.spelling import Spelled
from mm_runtime.serving.prompts.tokens import TextCodec

Spell = Callable[[int], Spelled]


def scores_of(request: EngineRequest) -> tuple[str, ...]:
    if request.likeliest is None:
        return ()
    return (LOG_PROBS, LIKELIEST_IDS, LIKELIEST_LOG_PROBS) if request.likeliest else (LOG_PROBS,)


def read_scores(
    result: Any, tokens: Sequence[int], likeliest: int, spell: Spell
) -> list[TokenScore]:
    """Return the score of each token of a response's one beam.

    `likeliest`: how many others each token has beside itself.

    Raises:
        EngineFailedError: the response has fewer scores than tokens, or one that is no number.
    """
    count = len(tokens)
    own = tensor_of(result, LOG_PROBS)
    # An engine may repeat those of earlier responses in front.
    found = [] if own is None else own.reshape(-1)[-count:].tolist()
    if own is None or len(found) < count:
        raise engine_failed()
    check_numbers(own.reshape(-1)[-count:])
    others: list[tuple[TokenScore, ...]] = [()] * count
    if likeliest:
        ids, log_probs = (tensor_of(result, one) for one in (LIKELIEST_IDS, LIKELIEST_LOG_PROBS))
        if ids is None or log_probs is None or ids.size != count * likeliest:
            raise engine_failed()
        check_numbers(log_probs)
        pairs = np.stack((ids.reshape(count, -1), log_probs.reshape(count, -1)), axis=-1)
        others = [
            tuple(_score(int(token), value, spell) for token, value in row)
            for row in pairs.tolist()
        ]
    return [
        _score(token, log_prob, spell, beside)
        for token, log_prob, beside in zip(tokens, found, others, strict=True)
    ]


def check_numbers(log_probs: NDArray[Any]) -> None:
    """Refuse scores of a model that computes NaN or infinity; minus infinity is a probability of 0.

    Raises:
        EngineFailedError: one is NaN or infinite.
    """
    if not bool((log_probs < np.inf).all()):
        raise engine_failed()


def _score(
    token: int, log_prob: float, spell: Spell, others: tuple[TokenScore, ...] = ()
) -> TokenScore:
    spelled = spell(token)
    return TokenScore(spelled.text, spelled.content, log_prob, others)


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


_ONE_INTEGER = Struct("<i")
_PROBE_SECONDS = 1.0
"""Deadline of a readiness question; the kubelet's probe allows one second by default."""


class TritonEngine:
    """Implements `mm_runtime.gateway.backends.engine.Engine` on a Triton server."""

    def __init__(
        self,
        address: str,
        decode: Decode,
        *,
        codec: TextCodec | None = None,
        newer_names: bool = False,
        reuses: bool = False,
        salts_text: bool = True,
    ) -> None:
        """Prepare the client; no request is sent yet.

        Args:
            address: host:port of Triton's gRPC endpoint.
            decode: token ids -> text, special tokens left out.
            codec: of requests that want special tokens or scores; None: there are none.
            newer_names: of inputs that differ by version.
            reuses: the server reports what it knew of a prompt.
            salts_text: what it keeps of text is kept apart by `cache_salt`.
        """
        self._decode = decode
        self._codec = codec
        self._newer_names = newer_names
        self._salts_text = salts_text
        self._reported = (REUSED.name,) if reuses else ()
        self._client = TritonClient(address)

    async def close(self) -> None:
        await self._client.close()

    async def is_ready(self) -> bool:
        try:
            return await self._client.is_ready(ENSEMBLE, _PROBE_SECONDS)
        except grpc.aio.AioRpcError:
            return False

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Yield the text of tokens as they come; closing the iterator stops the generation."""
        self._check_salt(request)
        inputs = build_inputs(request, newer_names=self._newer_names)
        scored = request.likeliest is not None
        text = TokenText(self._decoder(request))
        answered = stopped = False
        cached: int | None = None
        called = self._called(request)
        async with aclosing(self._responses(request, inputs, *called)) as responses:
            async for together in responses:
                cached = cached if answered else self._cached(together[0])
                answered = True
                if not (scored or request.token_by_token):
                    tokens = [token for result in together for token in _tokens(result)]
                    if tokens:
                        yield Text(text.push(tokens), len(tokens), ids=tuple(tokens), cached=cached)
                    continue
                for token, scores in self._scored(together, request):
                    if stopped := token in request.stop_ids:
                        break
                    yield Text(text.push((token,)), 1, scores, (token,), cached)
                if stopped:
                    break
        if not answered:
            # An ensemble that misses an input ends its stream with nothing in it, as if well.
            return
        for last in _ending(text, cached, cut=text.tokens >= request.max_tokens and not stopped):
            yield last

    def _check_salt(self, request: EngineRequest) -> None:
        # Served without it, others could learn from delays what this client has sent.
        if request.cache_salt and not (self._salts_text or request.images or request.videos):
            raise InvalidRequestError(
                "The model's engine keeps blocks of text for all clients alike, and apart by "
                "`cache_salt` only those of requests with images. Leave the field out, or have "
                "engine.kvCache.reuse set to false.",
                param="cache_salt",
            )

    def _cached(self, first: Any) -> int | None:
        found = tensor_of(first, REUSED.name) if self._reported else None
        return None if found is None else int(found.reshape(-1)[0])

    def _called(self, request: EngineRequest) -> tuple[str, ...]:
        outputs = (IDS, LENGTH, *self._reported, *scores_of(request))
        return (ENSEMBLE if request.likeliest is None else SCORED, *outputs)

    def _decoder(self, request: EngineRequest) -> Decode:
        if not request.shows_special:
            return self._decode
        assert self._codec is not None  # noqa: S101  # see `codec`
        return self._codec.decode_all

    def _scored(
        self, together: list[Any], request: EngineRequest
    ) -> Iterator[tuple[int, tuple[TokenScore, ...]]]:
        for result in together:
            tokens = _tokens(result)
            if request.likeliest is None or not tokens:
                yield from ((token, ()) for token in tokens)
                continue
            assert self._codec is not None  # noqa: S101  # see `codec`
            scores = read_scores(result, tokens, request.likeliest, self._codec.spell)
            yield from ((token, (score,)) for token, score in zip(tokens, scores, strict=True))

    async def first_logits(self, request: EngineRequest) -> NDArray[np.float32]:
        """Return the logits [vocabulary] of the first token of an answer."""
        wants_logits = Tensor("return_generation_logits", np.array([[True]], dtype=np.bool_))
        first = replace(request, max_tokens=1)
        inputs = [*build_inputs(first, newer_names=self._newer_names), wants_logits]
        found: NDArray[np.float32] | None = None
        async with aclosing(self._responses(request, inputs, ENSEMBLE, LOGITS)) as responses:
            async for together in responses:  # to its end: an abandoned stream would keep running
                for result in together:
                    logits = tensor_of(result, LOGITS)
                    if found is None and logits is not None and logits.size:
                        found = logits.reshape(-1, logits.shape[-1])[0]
        if found is None:
            raise engine_failed()
        return found

    async def _responses(
        self, request: EngineRequest, inputs: list[Tensor], model: str, *outputs: str
    ) -> AsyncGenerator[list[Any], None]:
        """Yield responses with some of an ensemble's outputs, those together that have come."""
        of = self._client, model, request.request_id
        stream = TritonStream(*of, inputs, outputs, trace=request.trace)
        try:
            async for together in stream.results():
                yield together
        except grpc.aio.AioRpcError as error:
            raise _broken_call(error.code()) from error
        except ReportedError as error:
            form_param = None if request.form is None else request.form.param
            raise reported_error(model, str(error), form_param) from error
        finally:
            await stream.stop()


def _ending(text: TokenText, cached: int | None, *, cut: bool) -> Iterator[Text | Ended]:
    """Yield what comes after the last token of an answer.

    `cached`: tokens of the prompt that were known. `cut`: the answer has as many tokens as it may
    have.
    """
    if text.tokens == 0:
        yield Text("", 0, cached=cached)
    if held := text.end():
        yield Text(held, 0)
    yield Ended(FinishReason.LENGTH if cut else FinishReason.STOP, text.tokens)


def _tokens(result: Any) -> list[int]:
    """Return the tokens of a response's one beam; none of a response without tensors.

    From the bytes: making arrays of them took longer than all else that is done to a response.
    """
    names = [output.name for output in result.outputs]
    found = dict(zip(names, result.raw_output_contents, strict=False))
    if IDS not in found or LENGTH not in found:
        return []
    (length,) = _ONE_INTEGER.unpack_from(found[LENGTH])
    return list(unpack_from(f"<{length}i", found[IDS]))


def _broken_call(code: grpc.StatusCode) -> GatewayError:
    if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND}:
        return engine_unavailable()
    return engine_failed()


def open_triton(directory: EngineDirectory, serving: ServingPlan, address: str) -> TritonEngine:
    """Return the engine behind Triton's gRPC endpoint, host:port; no request is sent yet.

    Raises:
        OSError, ValueError: the engine's tokenizer is missing or unusable.
    """
    build = directory.manifest.plan.trtllm
    codec = TextCodec(directory.tokenizer)
    return TritonEngine(
        address,
        codec.decode,
        codec=codec,
        newer_names=build is not None and has_newer_names(build.version),
        reuses=serving.reuse_bytes is not None,
        salts_text=serving.kv_cache is None or not serving.kv_cache.reuse,
    )
