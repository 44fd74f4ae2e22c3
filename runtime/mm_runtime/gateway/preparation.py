"""From a request to what the engine needs: checked, counted, its media loaded.

The steps stand in order of cost: what can be refused from the text alone is refused before an image
is fetched.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_edge.errors import InvalidRequestError
from mm_runtime.base.bounded_templates import soon_written
from mm_runtime.gateway.admission.tokens import TokenBudget, budget_tokens, check_characters
from mm_runtime.gateway.api.audio import SUBTITLES, TRANSLATE, TranscriptionRequest
from mm_runtime.gateway.api.messages import texts_of
from mm_runtime.gateway.api.openai import (
    ChatRequest,
    CompletionRequest,
    GenerationRequest,
)
from mm_runtime.gateway.api.parameters import refuse_unserved
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.backends.backend import Forms
from mm_runtime.gateway.backends.engine import EngineRequest, Form, Sampling
from mm_runtime.gateway.backends.forms import calls_need_tokens, form_of
from mm_runtime.gateway.media.accepted import check_features, check_media, check_recordings
from mm_runtime.gateway.media.audio import is_silent
from mm_runtime.gateway.media.audio_reader import DEFAULT_LANGUAGE, AudioReader
from mm_runtime.gateway.media.frames import Video
from mm_runtime.gateway.media.images import ImageLoader, Load, detailed
from mm_runtime.gateway.media.recordings import AudioReference
from mm_runtime.gateway.prepared import PreparedChat, PreparedRequest
from mm_runtime.gateway.prompts.conversation import ChatPrompt, Conversation
from mm_runtime.gateway.prompts.layout import PromptLayout
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from mm_runtime.serving.preprocess.processors.prepared import Size
from mm_runtime.serving.sampling_table import OF_TOKENS

AnyRequest = ChatRequest | CompletionRequest | TranscriptionRequest

_GRANULARITIES = "timestamp_granularities"
_THREAD_CHARACTERS = 16_384
"""Longer prompts are counted in a thread: about 10 ms, which would stall other streams."""

_FEW_MESSAGES = 16
"""Each takes time, also without a text."""


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A complete prompt, which part of the request holds it, and the chat that it was made of."""

    prompt: str
    param: str
    chat: Conversation

    @property
    def marks(self) -> int:
        return len(self.chat.images) + len(self.chat.videos)


class Preparation:
    """Prepares requests to one model."""

    def __init__(
        self,
        *,
        model: ServedModel,
        images: ImageLoader,
        layout: PromptLayout,
        chat_prompt: ChatPrompt | None,
        audio_reader: AudioReader | None,
        forms: Forms,
        isolates_salts: bool,
        writer: Executor,
    ) -> None:
        """Connect the parts.

        `chat_prompt` None: the model continues texts and knows no conversations. `audio_reader`
        None: it takes no audio. `writer` writes prompts: a template may take seconds.
        """
        self._forms = forms
        self._isolates_salts = isolates_salts
        self._writer = writer
        self.model = model
        self.audio_reader = audio_reader
        self._images = images
        self.layout = layout
        self._chat_prompt = chat_prompt

    @property
    def accepts_audio(self) -> bool:
        """Return whether the model transcribes audio, and does nothing else."""
        return self.audio_reader is not None

    @property
    def chats(self) -> bool:
        """Return whether the model answers conversations; the others complete texts."""
        return self._chat_prompt is not None

    def text_tokens(self, request: ChatRequest | CompletionRequest) -> int:
        """Return the tokens of a request's complete prompts without the features of their media."""
        return sum(
            self.layout.text_tokens(parsed.prompt, parsed.marks, video=bool(parsed.chat.videos))
            for parsed in self._write(request, self._split(request))
        )

    async def prepare(self, request: AnyRequest, key: str = "") -> PreparedRequest:
        """Check a request and get it ready for the engine: all of its prompts, or none.

        `key`: name of the client's; empty: it has none.

        Raises:
            UnknownModelError: it names another model.
            InvalidRequestError: anything else that the client must change.
        """
        self.model.names.adapter(request.model)  # whatever else is wrong with it
        if isinstance(request, TranscriptionRequest):
            return PreparedRequest((await self._prepare_audio(request),))
        refuse_unserved(request, self.model.backend, calls_missing=self.model.calls_missing)
        salt = salt_of(key if self._isolates_salts else "", request.cache_salt or "")
        is_short = isinstance(request, ChatRequest) and _is_short(request)
        beside = partial(asyncio.get_running_loop().run_in_executor, self._writer)
        chat = self._split(request) if is_short else await beside(self._split, request)
        processors = detailed(self.layout.image_processor, chat.images)
        async with self._images.ahead(chat.images, processors, salt) as load:
            write = partial(self._write, request, chat)
            prompts = soon_written(write) if is_short else None
            if prompts is None:  # the template is the checkpoint's, and may take seconds
                prompts = await beside(write)
            chats = await self._prepare_chats(request, prompts, salt, load)
        return PreparedRequest(tuple(chats))

    async def _prepare_chats(
        self,
        request: ChatRequest | CompletionRequest,
        prompts: Sequence[_Parsed],
        salt: str,
        load: Load,
    ) -> list[PreparedChat]:
        for parsed in prompts:
            check_characters(self.model.limits, parsed.prompt, parsed.param)
        form = form_of(request, self.model.dialect, self._forms)
        return [await self._prepare_chat(request, parsed, salt, form, load) for parsed in prompts]

    async def _prepare_chat(
        self,
        request: ChatRequest | CompletionRequest,
        parsed: _Parsed,
        salt: str,
        form: Form | None,
        load: Load,
    ) -> PreparedChat:
        chat = parsed.chat
        text_tokens = await self._count(parsed.prompt, parsed.marks, video=bool(chat.videos))
        # What can be refused before anything is fetched: exact where images' tokens are known.
        least = self.layout.least_rows(len(chat.images)) + len(chat.videos)
        budget = self._budget(request, parsed, text_tokens, least)
        images = await load()
        videos = await self._videos(parsed)
        if videos or not self.layout.rows_are_fixed:
            rows = self.layout.rows([(image.shape[0], image.shape[1]) for image in images])
            rows += sum(self.layout.video_rows(*_frames(video)) for video in videos)
            check_features(self.model, rows)
            budget = self._budget(request, parsed, text_tokens, rows)
        recordings = await self._recordings(chat.recordings)
        if recordings:
            # Each has one token in the text, which its features take the place of.
            features = sum(map(self.model.audio_features, map(len, recordings))) - len(recordings)
            budget = self._budget(request, parsed, text_tokens, budget.image_tokens + features)
        cross_attention_rows = self.layout.cross_attention_rows(
            [(image.shape[0], image.shape[1]) for image in images]
        )
        stop_ids = frozenset(request.stop_token_ids or ())
        engine_request = EngineRequest(
            prompt=parsed.prompt,
            images=images,
            videos=videos,
            recordings=recordings,
            cache_salt=salt,
            max_tokens=budget.max_tokens,
            sampling=sampling_of(request, self.model, most=budget.max_tokens),
            turns=tuple(chat.turns),
            tools=tuple(chat.tools),
            adapter=self.model.names.adapter(request.model),
            token_by_token=bool(request.stops or stop_ids),
            stop_ids=stop_ids,
            shows_special=request.skip_special_tokens is False
            or calls_need_tokens(request, self.model.dialect),
            likeliest=request.likeliest,
            form=form,
        )
        return PreparedChat(
            engine_request,
            replace(budget, cross_attention_tokens=cross_attention_rows),
            request.stops,
            choices=request.choices,
        )

    async def _videos(self, parsed: _Parsed) -> tuple[Video, ...]:
        """Return the frames of each video, one after another: each takes memory to decode."""
        processor, most = self.layout.image_processor, self.model.max_video_frames
        if processor is None:
            return ()
        load = partial(self._images.load_video, processor=processor, most_frames=most)
        return tuple([await load(one) for one in parsed.chat.videos])

    async def _recordings(
        self, references: Sequence[AudioReference]
    ) -> tuple[NDArray[np.float32], ...]:
        """Return the samples of each recording, one after another: each takes memory to decode."""
        audio, found = self.model.audio, []
        if audio is None:
            return ()
        for reference in references:
            samples = await self._images.load_recording(reference, most_samples=audio.most_samples)
            if len(samples) < audio.least_samples:
                raise InvalidRequestError(
                    f"`{reference.param}`: the audio has {len(samples)} samples, and this model "
                    f"reads {audio.least_samples} at the least. Send a longer recording.",
                    param=reference.param,
                    code="invalid_audio",
                )
            found.append(samples)
        return tuple(found)

    async def _prepare_audio(self, request: TranscriptionRequest) -> PreparedChat:
        if self.audio_reader is None:
            raise InvalidRequestError(
                "This model takes no audio. POST /v1/chat/completions or /v1/completions.",
                param="file",
                code="unsupported_endpoint",
            )
        refuse_unserved(request, self.model.backend)
        reader = self.audio_reader
        if request.must_be_timed and not reader.times:
            named = "response_format" if request.response_format in SUBTITLES else _GRANULARITIES
            raise InvalidRequestError(
                f"`{named}` is not served with this value: this model's backend, "
                f"{self.model.backend}, or its checkpoint writes no time stamps. Leave it out.",
                param=named,
                code="unsupported_parameter",
            )
        prefix, tokens = reader.prefix(request.language, request.task)
        detects = reader.detects
        if request.task == TRANSLATE and request.language is None and not detects:
            raise InvalidRequestError(
                "`language` is missing: this model's backend does not detect the language that is "
                "translated.",
                param="language",
            )
        budget = budget_tokens(
            replace(self.model.limits, decoder_tokens=tokens),
            text_tokens=tokens,
            wanted=None,
            param="language",
        )
        limit = request.token_limit
        if limit is not None:
            # More than one window has room for: those of longer audio together.
            budget = replace(budget, max_tokens=min(limit, budget.max_tokens))
        samples = await reader.read(request.file)
        windows = None
        if reader.times and (request.may_be_timed or len(samples) > reader.spectrogram.samples):
            if request.stops:
                raise InvalidRequestError(
                    "`stop` is not served with time stamps, which longer audio has too. Leave it "
                    "out.",
                    param="stop",
                    code="unsupported_parameter",
                )
            # One token of the prefix fewer: the one that says that there are no times.
            windows = await reader.windows(
                samples,
                most_tokens=self.model.limits.max_seq_len - tokens + 1,
                in_all=limit,
                scored=request.response_format == "verbose_json",
            )
            # About: windows overlap where a sentence is cut, by less than half on average.
            most = 2 * windows.most_tokens * windows.count
            budget = replace(budget, max_tokens=most if limit is None else min(limit, most))
        engine_request = EngineRequest(
            prompt=prefix,
            audio=samples if windows is None else None,
            max_tokens=budget.max_tokens,
            sampling=sampling_of(request, self.model, most=budget.max_tokens),
            adapter=self.model.names.adapter(request.model),
            token_by_token=bool(request.stops),
            likeliest=0 if windows and request.response_format == "verbose_json" else None,
        )
        return PreparedChat(
            engine_request,
            budget,
            request.stops,
            language=request.language or ("" if detects else DEFAULT_LANGUAGE),
            task=request.task,
            windows=windows,
            seconds=len(samples) / SAMPLE_RATE,
            silent=is_silent(samples),
        )

    def _split(self, request: ChatRequest | CompletionRequest) -> Conversation:
        """Return what a request holds, checked as far as its texts say; of a completion nothing."""
        if self.audio_reader is not None:
            raise InvalidRequestError(
                "This model transcribes audio. POST /v1/audio/transcriptions with `file`.",
                code="unsupported_endpoint",
            )
        if isinstance(request, CompletionRequest):
            return Conversation([], [], [])
        if self._chat_prompt is None:
            raise InvalidRequestError(
                "This model turns one text into another and knows no conversations. POST "
                "/v1/completions with `prompt`.",
                param="messages",
                code="unsupported_endpoint",
            )
        found = self._chat_prompt.split(request)
        check_media(self.model, found.images, found.videos)
        check_recordings(self.model, found.recordings)
        return found

    def _write(self, request: ChatRequest | CompletionRequest, chat: Conversation) -> list[_Parsed]:
        """Return the prompts of a request; a template may take seconds."""
        chat_prompt = self._chat_prompt
        if isinstance(request, CompletionRequest):
            return [
                _Parsed(chat_prompt.written(text, param) if chat_prompt else text, param, chat)
                for param, text in request.each_prompt.items()
            ]
        assert chat_prompt is not None  # noqa: S101  # it has split the request
        return [_Parsed(chat_prompt.write(chat), "messages", chat)]

    async def _count(self, prompt: str, marks: int, *, video: bool) -> int:
        count = partial(self.layout.text_tokens, prompt, marks, video=video)
        await asyncio.sleep(0)  # others have their turns between the prompts of one request
        return count() if len(prompt) <= _THREAD_CHARACTERS else await asyncio.to_thread(count)

    def _budget(
        self, request: GenerationRequest, parsed: _Parsed, text_tokens: int, rows: int
    ) -> TokenBudget:
        return budget_tokens(
            self.model.limits,
            text_tokens=text_tokens,
            image_tokens=rows,
            images=parsed.marks,
            wanted=request.token_limit,
            param=parsed.param,
        )


def _is_short(request: ChatRequest) -> bool:
    messages = request.messages
    few = len(messages) <= _FEW_MESSAGES  # searched in less time than a thread costs
    return few and sum(map(len, texts_of(messages))) <= _THREAD_CHARACTERS


def _frames(video: Video) -> tuple[int, Size]:
    frames, height, width, _ = video.pixels.shape
    return frames, (height, width)


def salt_of(key: str, given: str) -> str:
    """Return the salt of a request; empty: it shares with all others that have none.

    Clients of different keys share nothing, whatever they send: a salt that another client knows,
    or guesses, is not enough to find what its requests have left.
    """
    if not key:
        return given
    return hashlib.sha256(f"{key}\0{given}".encode()).hexdigest()


def sampling_of(
    request: AnyRequest,
    model: ServedModel,
    *,
    most: int,
) -> Sampling:
    """Return how an answer of at most so many tokens is drawn.

    Raises:
        InvalidRequestError: a token that the model has not, or more tokens at the least than most.
    """
    # A mass of nothing is held by the likeliest token, as OpenAI has it; engines refuse the number.
    likeliest = request.top_p == 0
    given = {one.name: getattr(request, one.name, None) for one in OF_TOKENS}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    chosen |= {
        "temperature": model.temperature if request.temperature is None else request.temperature,
        "top_p": 1.0 if likeliest else model.top_p if request.top_p is None else request.top_p,
        # The engine's own default seed is a constant: every sample would be the same.
        "seed": secrets.randbits(64) if request.seed is None else request.seed % 2**64,
        "top_k": 1 if likeliest else max(0, request.top_k or 0),
    }
    sampling = Sampling(**chosen)
    if isinstance(request, TranscriptionRequest):
        return sampling
    least = request.min_tokens or 0
    if least > most:
        raise InvalidRequestError(
            f"`min_tokens` is {least}; the answer has {most} tokens at the most.",
            param="min_tokens",
        )
    bias = request.logit_bias or {}
    named = (*bias, *(request.stop_token_ids or ()))
    if named and max(named) >= model.vocabulary_size:
        raise InvalidRequestError(
            f"Token {max(named)} is none of the model's, which are below {model.vocabulary_size}.",
            param="logit_bias" if max(named) in bias else "stop_token_ids",
        )
    return replace(sampling, ignores_end=bool(request.ignore_eos), bias=tuple(bias.items()))
