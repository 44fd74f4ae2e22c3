"""What happens to a request, whatever carried it: check, prepare, wait, generate, count.

Knows neither HTTP nor gRPC. The steps stand in order of cost: what can be refused from the text
alone is refused before an image is fetched.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.admission.fair_queue import PLAIN, Ticket
from mm_runtime.gateway.admission.slots import Admission
from mm_runtime.gateway.admission.tokens import TokenBudget, budget_tokens, check_characters
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.openai import (
    ChatRequest,
    CompletionRequest,
    GenerationRequest,
    TranscriptionRequest,
)
from mm_runtime.gateway.api.parameters import refuse_unserved
from mm_runtime.gateway.api.scores import HeldScores, TokenScore
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.api.stops import StopCutter
from mm_runtime.gateway.backends.engine import (
    Ended,
    Engine,
    EngineRequest,
    Form,
    Sampling,
    Scorer,
)
from mm_runtime.gateway.backends.forms import calls_need_tokens, form_of
from mm_runtime.gateway.backends.merged import merged
from mm_runtime.gateway.errors import EngineFailedError, InvalidRequestError
from mm_runtime.gateway.media.audio_reader import DEFAULT_LANGUAGE, AudioReader
from mm_runtime.gateway.media.frames import Video
from mm_runtime.gateway.media.images import ImageLoader, ImageReference, VideoReference
from mm_runtime.gateway.prompts.conversation import ChatPrompt
from mm_runtime.gateway.prompts.layout import PromptLayout
from mm_runtime.gateway.prompts.templates import Turn
from mm_runtime.serving.preprocess.processors.prepared import Size

AnyRequest = ChatRequest | CompletionRequest | TranscriptionRequest

LIKELIEST = Sampling(0.0, 1.0, presence_penalty=None, frequency_penalty=None, seed=0)
"""Greedy: the same engine gives the same answer."""

_THREAD_CHARACTERS = 16_384
"""Longer prompts are counted in a thread: about 10 ms, which would stall other streams."""


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """A checked request with everything the engine needs."""

    prompt: str
    images: tuple[NDArray[np.uint8], ...]
    video: Video | None
    audio: NDArray[np.float32] | None
    cache_salt: str
    budget: TokenBudget
    sampling: Sampling
    stops: tuple[str, ...]
    turns: tuple[Turn, ...] = ()
    adapter: int | None = None
    """Id of the LoRA adapter that answers; None: the base model."""
    language: str = ""
    """Of the audio, as the client named it or by default; empty: the engine detects it first."""
    choices: int = 1
    stop_ids: frozenset[int] = frozenset()
    shows_special: bool = False
    likeliest: int | None = None
    form: Form | None = None
    """As in `EngineRequest`."""
    ticket: Ticket = PLAIN
    """Of each choice: how it waits for a slot."""

    @property
    def image_count(self) -> int:
        """Number of images."""
        return len(self.images)

    @property
    def media_bytes(self) -> int:
        """Memory of pixels and samples, held until the answer ends."""
        media = (*self.images, self.video, self.audio)
        return sum(one.nbytes for one in media if one is not None)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A request's complete prompt and where its media are."""

    prompt: str
    images: list[ImageReference]
    videos: list[VideoReference]
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request got a slot after waiting for it."""

    waited_seconds: float


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that some tokens added; empty while text is held back."""

    text: str
    tokens: int
    choice: int = 0
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """One choice is complete."""

    reason: FinishReason
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """All choices are complete."""

    completion_tokens: int
    """Of all of them."""

    language: str = ""
    """Of the audio; empty: there was none."""


Event = Admitted | Piece | Ending | Finished


class ChatService:
    """Answers requests with one engine."""

    def __init__(
        self,
        *,
        model: ServedModel,
        engine: Engine,
        admission: Admission,
        images: ImageLoader,
        layout: PromptLayout,
        chat_prompt: ChatPrompt | None,
        audio_reader: AudioReader | None,
    ) -> None:
        """Connect the parts.

        Args:
            model: what is served.
            engine: where prompts go.
            admission: how many at a time.
            images: loads media.
            layout: counts tokens.
            chat_prompt: None: the model continues texts and knows no conversations.
            audio_reader: None: the model takes no audio.
        """
        self.model = model
        self.engine = engine
        self.admission = admission
        self._images = images
        self._layout = layout
        self._chat_prompt = chat_prompt
        self._audio_reader = audio_reader

    @property
    def accepts_audio(self) -> bool:
        """Return whether the model transcribes audio, and does nothing else."""
        return self._audio_reader is not None

    @property
    def chats(self) -> bool:
        """Return whether the model answers conversations; the others complete texts."""
        return self._chat_prompt is not None

    def text_tokens(self, request: ChatRequest | CompletionRequest) -> int:
        """Return the tokens of a request's complete prompt without the features of its media.

        Raises:
            InvalidRequestError: as `prepare`.
        """
        parsed = self._read(request)
        marks = len(parsed.images) + len(parsed.videos)
        return self._layout.text_tokens(parsed.prompt, marks, video=bool(parsed.videos))

    def rows(self, sizes: Sequence[Size]) -> int:
        """Return the prompt tokens that the images of one request become."""
        return self._layout.rows(sizes)

    def video_rows(self, frames: int, size: Size) -> int:
        """Return the prompt tokens that a video becomes."""
        return self._layout.video_rows(frames, size)

    def features(self, sizes: Sequence[Size]) -> int:
        """Return the features of the images of one request, in the prompt or beside it."""
        return self._layout.rows(sizes) + self._layout.cross_attention_rows(sizes)

    async def prepare(self, request: AnyRequest) -> PreparedChat:
        """Check a request and get it ready for the engine.

        Raises:
            UnknownModelError: it names another model.
            InvalidRequestError: anything else that the client must change.
        """
        adapter = self.model.names.adapter(request.model)
        refuse_unserved(request, self.model.backend)
        if isinstance(request, TranscriptionRequest):
            return replace(await self._prepare_audio(request), adapter=adapter)
        parsed = self._read(request)
        marks = len(parsed.images) + len(parsed.videos)
        check_characters(self.model.limits, parsed.prompt, _prompt_param(request))
        text_tokens = await self._count(parsed.prompt, marks, video=bool(parsed.videos))
        # What can be refused before anything is fetched: exact where images' tokens are known.
        least = self._layout.least_rows(len(parsed.images)) + len(parsed.videos)
        budget = self._budget(request, text_tokens, marks, least)
        salt = request.cache_salt or ""
        images = await self._images.load(parsed.images, salt)
        video = None
        if parsed.videos:
            video = await self._images.load_video(
                parsed.videos[0], most_frames=self.model.max_video_frames
            )
            frames, height, width, _ = video.pixels.shape
            rows = self._layout.video_rows(frames, (height, width))
            budget = self._budget(request, text_tokens, marks, rows)
        elif not self._layout.rows_are_fixed:
            rows = self._layout.rows([(image.shape[0], image.shape[1]) for image in images])
            budget = self._budget(request, text_tokens, marks, rows)
        cross_attention_rows = self._layout.cross_attention_rows(
            [(image.shape[0], image.shape[1]) for image in images]
        )
        return PreparedChat(
            prompt=parsed.prompt,
            images=images,
            video=video,
            audio=None,
            cache_salt=salt,
            budget=replace(budget, cross_attention_tokens=cross_attention_rows),
            sampling=self._choose_sampling(request, budget),
            stops=request.stops,
            turns=parsed.turns,
            adapter=adapter,
            choices=request.choices,
            stop_ids=frozenset(request.stop_token_ids or ()),
            shows_special=request.skip_special_tokens is False
            or calls_need_tokens(request, self.model.dialect),
            likeliest=_likeliest(request),
            form=form_of(request, self.model.dialect),
        )

    def answer(self, chat: PreparedChat, *, request_id: str) -> AsyncGenerator[Event, None]:
        """Wait for a slot, generate, and yield what happens; `Finished` comes last.

        The caller holds a place of `admission` for each choice and bounds the time; closing the
        iterator stops the generation.
        """
        # Most have one choice, and no generator more between the engine and the client.
        return (self._one if chat.choices == 1 else self._several)(chat, request_id)

    async def _several(self, chat: PreparedChat, request_id: str) -> AsyncGenerator[Event, None]:
        """Yield what happens to all choices, in slots of their own."""
        choices = [self._one(chat, request_id, number) for number in range(chat.choices)]
        admitted, tokens = False, 0
        async with aclosing(merged(choices)) as events:
            async for event in events:
                match event:
                    case Finished():
                        tokens += event.completion_tokens
                    case Admitted() if admitted:
                        pass
                    case _:
                        admitted = True
                        yield event
        yield Finished(tokens)

    async def _one(
        self, chat: PreparedChat, request_id: str, choice: int = 0
    ) -> AsyncGenerator[Event, None]:
        async with self.admission.slot(chat.ticket) as waited:
            yield Admitted(waited)
            request = _engine_request(chat, request_id, choice)
            language = chat.language
            if chat.audio is not None and not language:
                language = await self._detected(request)
                request = replace(request, prompt=self._prefix(language))
            cutter, scores = StopCutter(chat.stops), HeldScores()
            tokens = 0
            ended: Ended | None = None
            async with aclosing(self.engine.generate(request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Ended):
                        ended = piece
                        break
                    tokens += piece.tokens
                    shown = cutter.push(piece.text)
                    ready = scores.push(piece.text, piece.scores, shown) if piece.scores else ()
                    yield Piece(shown, piece.tokens, choice, ready)
                    if cutter.stopped:
                        ended = Ended(FinishReason.STOP, tokens)
                        break
            if ended is None:
                raise EngineFailedError("The model returned no output.", code="engine_error")
            held, ready = cutter.flush(), () if cutter.stopped else scores.flush()
            if held or ready:
                yield Piece(held, 0, choice, ready)
            yield Ending(ended.reason, choice)
            yield Finished(ended.tokens, language)

    async def _prepare_audio(self, request: TranscriptionRequest) -> PreparedChat:
        if self._audio_reader is None:
            raise InvalidRequestError(
                "This model takes no audio. POST /v1/chat/completions or /v1/completions.",
                param="file",
                code="unsupported_endpoint",
            )
        prefix, tokens = self._audio_reader.prefix(request.language)
        budget = budget_tokens(
            replace(self.model.limits, decoder_tokens=tokens),
            text_tokens=tokens,
            wanted=request.token_limit,
            param="language",
        )
        return PreparedChat(
            prompt=prefix,
            images=(),
            video=None,
            audio=await self._audio_reader.read(request.file),
            cache_salt="",
            budget=budget,
            sampling=self._choose_sampling(request, budget),
            stops=request.stops,
            language=request.language or ("" if self._audio_reader.detects else DEFAULT_LANGUAGE),
        )

    async def _detected(self, request: EngineRequest) -> str:
        """Return the language of audio; a slot of the engine is taken for one token."""
        assert isinstance(self.engine, Scorer)  # noqa: S101  # else no language is detected
        assert self._audio_reader is not None  # noqa: S101  # it made the request's prompt
        question = replace(request, prompt=self._audio_reader.question, sampling=LIKELIEST)
        return self._audio_reader.detected(await self.engine.first_logits(question))

    def _prefix(self, language: str) -> str:
        assert self._audio_reader is not None  # noqa: S101  # as above
        return self._audio_reader.prefix(language)[0]

    def _read(self, request: ChatRequest | CompletionRequest) -> _Parsed:
        if self._audio_reader is not None:
            raise InvalidRequestError(
                "This model transcribes audio. POST /v1/audio/transcriptions with `file`.",
                code="unsupported_endpoint",
            )
        if isinstance(request, CompletionRequest):
            text = request.text
            return _Parsed(self._chat_prompt.written(text) if self._chat_prompt else text, [], [])
        if self._chat_prompt is None:
            raise InvalidRequestError(
                "This model turns one text into another and knows no conversations. POST "
                "/v1/completions with `prompt`.",
                param="messages",
                code="unsupported_endpoint",
            )
        found = self._chat_prompt.split(request)
        self._check_media(found.images, found.videos)
        return _Parsed(
            self._chat_prompt.write(found), found.images, found.videos, tuple(found.turns)
        )

    def _check_media(self, images: list[ImageReference], videos: list[VideoReference]) -> None:
        limit = self.model.max_images
        if len(images) > limit:
            param = images[limit].param
            raise InvalidRequestError(
                f"The request has {len(images)} images; this model takes at most {limit} per "
                f"request. `{param}` is the first one too many.",
                param=param,
                code="too_many_images",
            )
        if not videos:
            return
        if not self.model.max_video_frames:
            raise InvalidRequestError(
                f"This model takes no video. Leave `{videos[0].param}` out.",
                param=videos[0].param,
                code="invalid_content_part",
            )
        wanted = videos[0].choice.num_frames
        if wanted is not None and wanted > self.model.max_video_frames:
            raise InvalidRequestError(
                f"This model takes at most {self.model.max_video_frames} frames of a video; "
                f"`num_frames` is {wanted}.",
                param=f"{videos[0].param}.video_url.num_frames",
            )
        if images or len(videos) > 1:
            param = videos[-1].param
            raise InvalidRequestError(
                f"A request has either images or one video. Leave `{param}` out.",
                param=param,
                code="too_many_videos",
            )

    async def _count(self, prompt: str, marks: int, *, video: bool) -> int:
        count = partial(self._layout.text_tokens, prompt, marks, video=video)
        return count() if len(prompt) <= _THREAD_CHARACTERS else await asyncio.to_thread(count)

    def _budget(
        self, request: GenerationRequest, text_tokens: int, images: int, rows: int
    ) -> TokenBudget:
        return budget_tokens(
            self.model.limits,
            text_tokens=text_tokens,
            image_tokens=rows,
            images=images,
            wanted=request.token_limit,
            param=_prompt_param(request),
        )

    def _choose_sampling(
        self, request: ChatRequest | CompletionRequest | TranscriptionRequest, budget: TokenBudget
    ) -> Sampling:
        model = self.model
        sampling = Sampling(
            temperature=model.temperature if request.temperature is None else request.temperature,
            top_p=model.top_p if request.top_p is None else request.top_p,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            # The engine's own default seed is a constant: every sample would be the same.
            seed=secrets.randbits(64) if request.seed is None else request.seed % 2**64,
        )
        if isinstance(request, TranscriptionRequest):
            return sampling
        least = request.min_tokens or 0
        if least > budget.max_tokens:
            raise InvalidRequestError(
                f"`min_tokens` is {least}; the answer has {budget.max_tokens} tokens at the most.",
                param="min_tokens",
            )
        bias = request.logit_bias or {}
        named = (*bias, *(request.stop_token_ids or ()))
        if named and max(named) >= model.vocabulary_size:
            raise InvalidRequestError(
                f"Token {max(named)} is none of the model's, which are below "
                f"{model.vocabulary_size}.",
                param="logit_bias" if max(named) in bias else "stop_token_ids",
            )
        return replace(
            sampling,
            top_k=max(0, request.top_k or 0),
            min_p=request.min_p or 0.0,
            repetition_penalty=request.repetition_penalty,
            min_tokens=least,
            ignores_end=bool(request.ignore_eos),
            bias=tuple(bias.items()),
        )


def _prompt_param(request: GenerationRequest) -> str:
    """Return which part of a request holds its prompt."""
    return "messages" if isinstance(request, ChatRequest) else "prompt"


def _likeliest(request: ChatRequest | CompletionRequest) -> int | None:
    """Return how many scores the engine reports besides each token's own; None: no scores."""
    chosen = isinstance(request, CompletionRequest) and request.choices > request.wanted_choices
    return 0 if chosen and request.likeliest is None else request.likeliest


def _engine_request(chat: PreparedChat, request_id: str, choice: int) -> EngineRequest:
    """Return what the engine generates of one choice; each has a seed of its own."""
    seed = (chat.sampling.seed + choice) % 2**64
    return EngineRequest(
        request_id=f"{request_id}-{choice}" if choice else request_id,
        prompt=chat.prompt,
        images=chat.images,
        video=chat.video,
        audio=chat.audio,
        cache_salt=chat.cache_salt,
        max_tokens=chat.budget.max_tokens,
        sampling=replace(chat.sampling, seed=seed),
        turns=chat.turns,
        adapter=chat.adapter,
        token_by_token=bool(chat.stops or chat.stop_ids),
        stop_ids=chat.stop_ids,
        shows_special=chat.shows_special,
        likeliest=chat.likeliest,
        form=chat.form,
    )
