"""What the dataplane needs of an engine: a prompt and pixels in, text and its tokens out."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mm_api.contract import GRPC_PORT
from mm_runtime.base.chat_template import Tool, Turn
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.media.frames import Video
from mm_runtime.serving.sampling_table import OF_TOKENS, SamplingParameter


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: 0 means greedy; `top_p`, `top_k`, `min_p` and `seed` are without effect then.
        seed: unsigned 64-bit; the same seed gives the same answer from the same engine.
        top_k: likeliest tokens that are drawn from; 0: all.
        min_p: tokens less likely than this part of the likeliest one are not drawn; 0: all are.
        repetition_penalty: None: the engine's own default, which is none.
        min_tokens: no end before so many.
        ignores_end: the end token ends nothing.
        bias: token and what is added to its logit.
    """

    temperature: float
    top_p: float
    seed: int
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float | None = None
    min_tokens: int = 0
    ignores_end: bool = False
    bias: tuple[tuple[int, float], ...] = ()

    def used(self) -> Iterator[tuple[SamplingParameter, float]]:
        for one in OF_TOKENS:
            value = getattr(self, one.name)
            unset = value is None or (one.unset_at_zero and not value)
            if not unset and (self.temperature > 0 or not one.drawn):
                yield one, value


MAX_FORM_BYTES = 64 * 1024
"""Size of a schema, or of what is made of one. Real ones have a few thousand."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer must be: JSON, JSON of a schema, or a text that a pattern matches."""

    kind: str
    """As TensorRT-LLM names it: json, json_schema, regex; or as the Reference engine does."""

    text: str = ""
    param: str | None = None
    """Part of the request, that states it: a refusal by the server names it."""


@dataclass(frozen=True, slots=True)
class Text:
    """What some tokens added to an answer; empty while text is held back."""

    text: str
    tokens: int = 1
    """How many came together; 0: what was held back when the answer ended."""

    scores: tuple[TokenScore, ...] = ()
    """For each of them, where they were requested."""

    ids: tuple[int, ...] = ()
    """Ids of the tokens, where the engine says them."""

    cached: int | None = None
    """Tokens of the prompt that were known from earlier requests. None: not said."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an answer ended; it comes last."""

    reason: FinishReason
    tokens: int


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request to the engine.

    Attributes:
        prompt: complete prompt with the family's placeholder for each image.
        images: uint8[height, width, 3] each.
        videos: frames of each, and how long they take.
        turns: the conversation behind the prompt, for engines that write the prompt themselves;
            empty: there is none.
        tools: functions that the model may call, for the same engines.
        audio: float32[samples] at the model's rate, or None.
        spectrogram: float32[frames, bins], a window of audio; None: `audio` says it, or there is
            none.
        recordings: of the conversation, float32[samples] each, at the model's rate.
        adapter: id of the LoRA adapter that answers; None: the base model.
        cache_salt: what is kept of images and prompts is shared with requests of the same one;
            empty: of none.
        token_by_token: each token's text comes by itself, because the answer may be cut after it.
        stop_ids: tokens that end the answer and are no part of it.
        shows_special: special tokens have text.
        likeliest: None: no scores are wanted; else of each token its own and those of so many
            likeliest ones.
        form: of the answer; None: any.
        trace: headers that continue the request's trace at the server; empty: it is not traced.
    """

    prompt: str
    max_tokens: int
    sampling: Sampling
    request_id: str = ""
    images: tuple[NDArray[np.uint8], ...] = ()
    videos: tuple[Video, ...] = ()
    audio: NDArray[np.float32] | None = None
    cache_salt: str = ""
    spectrogram: NDArray[np.float32] | None = None
    recordings: tuple[NDArray[np.float32], ...] = ()
    turns: tuple[Turn, ...] = ()
    tools: tuple[Tool, ...] = ()
    adapter: int | None = None
    token_by_token: bool = False
    stop_ids: frozenset[int] = frozenset()
    shows_special: bool = False
    likeliest: int | None = None
    form: Form | None = None
    trace: tuple[tuple[str, str], ...] = ()


LIKELIEST = Sampling(0.0, 1.0, seed=0)
"""Greedy: the same engine gives the same answer."""


def first_token(request: EngineRequest, prompt: str) -> EngineRequest:
    """Return a request for the logits of the token that follows another prompt."""
    return replace(request, prompt=prompt, sampling=LIKELIEST, likeliest=None, form=None)


class Engine(Protocol):
    """Generates text. Implementations raise no error but a `GatewayError`."""

    def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Yield the text of tokens as they come, several together when they came together.

        `Ended` comes last; an answer of no tokens has one empty text before it.

        Closing the iterator stops the request and frees its slot; so does a caller's time-out.
        """
        ...

    async def is_ready(self) -> bool:
        """Return whether the engine can answer now; never raises, answers within about a second."""
        ...


class ServedEngine(Engine, Protocol):
    """An engine behind connections."""

    async def close(self) -> None:
        """Close them; no request is inside any more."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where a gateway finds the server, host:port."""

    triton: str = f"127.0.0.1:{GRPC_PORT}"
    """Its gRPC endpoint."""

    openai: str = ""
    """A server of OpenAI's API; empty: where the serving plan has it listen, in the pod."""


@runtime_checkable
class Scorer(Protocol):
    """An engine that returns how likely each token is to come first."""

    async def first_logits(self, request: EngineRequest) -> NDArray[np.float32]:
        """Return the logits [vocabulary] of the first token of an answer.

        Raises no error but a `GatewayError`, as `Engine.generate` does.
        """
        ...
