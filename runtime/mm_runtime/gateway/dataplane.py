"""What happens to a chat request, whatever carried it: check, prepare, wait, generate, count.

Knows neither HTTP nor gRPC. The steps stand in order of cost: what can be refused from the text
alone is refused before an image is fetched.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from mm_runtime.engine.tokens import TextCodec
from mm_runtime.gateway.admission import Admission
from mm_runtime.gateway.engine import Engine, EngineRequest, Sampling
from mm_runtime.gateway.errors import InvalidRequestError, UnknownModelError
from mm_runtime.gateway.images import ImageLoader, ImageReference
from mm_runtime.gateway.openai import ChatRequest, ImagePart, TextPart
from mm_runtime.gateway.stops import StopCutter
from mm_runtime.gateway.templates import PLACEHOLDER, ChatTemplate, TemplateRefusedError, Turn
from mm_runtime.gateway.tokens import ContextLimits, TokenBudget, TokenCounter, budget_tokens

_THREAD_CHARACTERS = 16_384
"""Longer prompts are counted in a thread: about 10 ms, which would stall other streams."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The one model behind this gateway.

    Attributes:
        created: seconds since the epoch, when its engine was built.
        temperature: used when a request gives none; the checkpoint's generation config says.
        top_p: the same.
    """

    name: str
    created: int
    fingerprint: str
    limits: ContextLimits
    max_images: int
    temperature: float
    top_p: float


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """A checked request with everything the engine needs."""

    prompt: str
    images: NDArray[np.uint8] | None
    budget: TokenBudget
    sampling: Sampling
    stops: tuple[str, ...]

    @property
    def image_count(self) -> int:
        """Number of images."""
        return 0 if self.images is None else len(self.images)


class FinishReason(StrEnum):
    """Why an answer ended, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request got a slot after waiting for it."""

    waited_seconds: float


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that one token added; empty while text is held back."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete."""

    reason: FinishReason
    completion_tokens: int


Event = Admitted | Piece | Finished


class ChatService:
    """Answers chat requests with one engine."""

    def __init__(
        self,
        *,
        model: ServedModel,
        engine: Engine,
        admission: Admission,
        images: ImageLoader,
        template: ChatTemplate,
        codec: TextCodec,
    ) -> None:
        self.model = model
        self.engine = engine
        self.admission = admission
        self._images = images
        self._template = template
        self._codec = codec

    async def prepare(self, request: ChatRequest) -> PreparedChat:
        """Check a request and get it ready for the engine.

        Raises:
            UnknownModelError: it names another model.
            InvalidRequestError: anything else that the client must change.
        """
        self.check_model(request.model)
        turns, references = _take_apart(request)
        self._check_images(references)
        prompt = self._write_prompt(turns)
        budget = budget_tokens(
            self.model.limits,
            text_tokens=await self._count(prompt),
            images=len(references),
            wanted=request.token_limit,
        )
        return PreparedChat(
            prompt=prompt,
            images=await self._images.load(references),
            budget=budget,
            sampling=self._choose_sampling(request),
            stops=request.stops,
        )

    async def answer(self, chat: PreparedChat, *, request_id: str) -> AsyncGenerator[Event, None]:
        """Wait for a slot, generate, and yield what happens; `Finished` comes last.

        The caller holds a place of `admission` and bounds the time; closing the iterator stops the
        generation.
        """
        async with self.admission.slot() as waited:
            yield Admitted(waited)
            request = EngineRequest(
                request_id=request_id,
                prompt=chat.prompt,
                images=chat.images,
                max_tokens=chat.budget.max_tokens,
                sampling=chat.sampling,
            )
            cutter = StopCutter(chat.stops)
            counter = TokenCounter()
            async with aclosing(self.engine.generate(request)) as pieces:
                async for piece in pieces:
                    counter.add(piece)
                    yield Piece(cutter.push(piece))
                    if cutter.stopped:
                        break
            if held := cutter.flush():
                yield Piece(held)
            tokens = counter.total
            cut = tokens >= chat.budget.max_tokens and not cutter.stopped
            yield Finished(FinishReason.LENGTH if cut else FinishReason.STOP, tokens)

    def check_model(self, name: str) -> None:
        """Refuse a model that is not the served one.

        Raises:
            UnknownModelError: the name differs.
        """
        if name != self.model.name:
            raise UnknownModelError(
                f"The model {name[:100]!r} does not exist here; this endpoint serves "
                f"{self.model.name!r}.",
                param="model",
                code="model_not_found",
            )

    def _check_images(self, references: list[ImageReference]) -> None:
        limit = self.model.max_images
        if len(references) > limit:
            raise InvalidRequestError(
                f"The request has {len(references)} images; this model takes at most {limit} per "
                f"request. `{references[limit].param}` is the first one too many.",
                param=references[limit].param,
                code="too_many_images",
            )

    def _write_prompt(self, turns: list[Turn]) -> str:
        """Return the whole prompt.

        It begins with the begin token's text when there is no image in it: to the preprocessing
        model a prompt with neither is a bare question, which it would wrap once more.
        """
        try:
            prompt = self._template.render(turns)
        except TemplateRefusedError as error:
            raise InvalidRequestError(f"`messages`: {error}.", param="messages") from error
        begin = self._codec.begin_token or ""
        return prompt if PLACEHOLDER in prompt or prompt.startswith(begin) else begin + prompt

    async def _count(self, prompt: str) -> int:
        if len(prompt) <= _THREAD_CHARACTERS:
            return len(self._codec.encode_prompt(prompt))
        return len(await asyncio.to_thread(self._codec.encode_prompt, prompt))

    def _choose_sampling(self, request: ChatRequest) -> Sampling:
        model = self.model
        return Sampling(
            temperature=model.temperature if request.temperature is None else request.temperature,
            top_p=model.top_p if request.top_p is None else request.top_p,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            # The engine's own default seed is a constant: every sample would be the same.
            seed=secrets.randbits(64) if request.seed is None else request.seed % 2**64,
        )


def _take_apart(request: ChatRequest) -> tuple[list[Turn], list[ImageReference]]:
    """Split the messages into turns for the template and references to images, in order."""
    turns = []
    references = []
    for number, message in enumerate(request.messages):
        parts: list[str | None] = []
        content = message.content
        where = f"messages[{number}].content"
        for index, part in enumerate([content] if isinstance(content, str) else content):
            match part:
                case str():
                    parts.append(_plain(part, where))
                case TextPart():
                    parts.append(_plain(part.text, f"{where}[{index}]"))
                case ImagePart():
                    parts.append(None)
                    references.append(ImageReference(part.image_url.url, f"{where}[{index}]"))
        role = "system" if message.role == "developer" else message.role
        turns.append(Turn(role, tuple(parts)))
    return turns, references


def _plain(text: str, param: str) -> str:
    """Refuse a text that holds the placeholder: it would claim an image of its own."""
    if PLACEHOLDER in text:
        raise InvalidRequestError(
            f"`{param}` contains {PLACEHOLDER!r}, which stands for an image. Leave it out: image "
            "parts are placed by their position.",
            param=param,
        )
    return text
