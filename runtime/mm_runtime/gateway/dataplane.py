"""What happens to a request, whatever carried it: prepare, wait, generate, count.

Knows neither HTTP nor gRPC.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from mm_edge.tracing import continued, span
from mm_runtime.gateway.admission.slots import Admission
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import HeldScores, TokenScore
from mm_runtime.gateway.api.segments import Segment
from mm_runtime.gateway.api.stops import StopCutter
from mm_runtime.gateway.backends.engine import (
    Ended,
    Engine,
    EngineRequest,
    Scorer,
    Text,
    first_token,
)
from mm_runtime.gateway.backends.merged import merged
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.long_audio import transcribed
from mm_runtime.gateway.media.audio_reader import DEFAULT_LANGUAGE, Windows
from mm_runtime.gateway.preparation import Preparation
from mm_runtime.gateway.prepared import PreparedChat, PreparedRequest


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
    """All choices are complete, or of one of several all that is to be said."""

    completion_tokens: int

    language: str = ""
    """Language of the audio; empty: there was none."""

    segments: tuple[Segment, ...] | None = None
    """Segments of audio with time stamps."""

    cached_tokens: int | None = None
    """Tokens of the prompt, known from earlier requests. None: nothing is kept of them."""

    choice: int = 0
    """Index of the choice."""


Event = Admitted | Piece | Ending | Finished


class ChatService:
    """Answers requests with one engine."""

    def __init__(self, preparation: Preparation, engine: Engine, admission: Admission) -> None:
        self.preparation = preparation
        self.engine = engine
        self.admission = admission

    def answer(self, request: PreparedRequest, *, request_id: str) -> AsyncGenerator[Event, None]:
        """Wait for a slot, generate, and yield what happens; `Finished` comes last.

        The caller holds a place of `admission` for each choice and bounds the time; closing the
        iterator stops the generation.
        """
        # Most have one choice, and no generator more between the engine and the client.
        if request.choices == 1:
            chat = request.chats[0]
            return self._silent(chat) if chat.silent else self._one(chat, request_id)
        return self._several(request, request_id)

    async def _several(
        self, request: PreparedRequest, request_id: str
    ) -> AsyncGenerator[Event, None]:
        """Yield what happens to all choices, in slots of their own; those of a prompt in a row."""
        each = request.chats[0].choices
        choices = [
            self._one(chat, request_id, prompt * each + sample, sample)
            for prompt, chat in enumerate(request.chats)
            for sample in range(each)
        ]
        admitted, tokens = False, 0
        cached: dict[int, int] = {}
        async with aclosing(merged(choices)) as events:
            async for event in events:
                match event:
                    case Finished():
                        tokens += event.completion_tokens
                        if (known := event.cached_tokens) is not None:
                            # Other choices find what the first one has computed.
                            prompt = event.choice // each
                            cached[prompt] = min(known, cached.get(prompt, known))
                    case Admitted() if admitted:
                        pass
                    case _:
                        admitted = True
                        yield event
        yield Finished(tokens, cached_tokens=sum(cached.values()) if cached else None)

    async def _one(
        self, chat: PreparedChat, request_id: str, choice: int = 0, sample: int = 0
    ) -> AsyncGenerator[Event, None]:
        """Yield what happens to one choice, which is the so-and-so-many-th of its prompt."""
        async with self.admission.slot(chat.ticket) as waited:
            yield Admitted(waited)
            request = _engine_request(chat, request_id, choice, sample)
            language = chat.language
            if chat.seconds:
                language = language or await self._detected(request)
                request = replace(request, prompt=self._prefix(language, chat))
            if chat.windows is not None:
                async for event in self._windows(request, chat.windows, language):
                    yield event
                return
            cutter = StopCutter(chat.stops)
            scores = None if request.likeliest is None else HeldScores()
            tokens = 0
            cached: int | None = None
            ended: Ended | None = None
            async with aclosing(self._generated(request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Ended):
                        ended = piece
                        break
                    cached = piece.cached if cached is None else cached
                    tokens += piece.tokens
                    shown = cutter.push(piece.text)
                    ready = scores.push(piece.text, piece.scores, shown) if scores else ()
                    yield Piece(shown, piece.tokens, choice, ready)
                    if cutter.stopped:
                        ended = Ended(FinishReason.STOP, tokens)
                        break
            if ended is None:
                raise EngineFailedError("The model returned no output.", code="engine_error")
            held, ready = cutter.flush(), scores.flush() if scores and not cutter.stopped else ()
            if held or ready:
                yield Piece(held, 0, choice, ready)
            yield Ending(ended.reason, choice)
            yield Finished(ended.tokens, language, cached_tokens=cached, choice=choice)

    def _generated(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        # Without a trace no generator more is between the engine and the client.
        return self._traced(request) if request.trace else self.engine.generate(request)

    async def _traced(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        first = True
        with span("generate") as part:
            request = replace(request, trace=part.headers)
            async with aclosing(self.engine.generate(request)) as pieces:
                async for piece in pieces:
                    if first:
                        part.event("first token")
                        first = False
                    yield piece

    async def _silent(self, chat: PreparedChat) -> AsyncGenerator[Event, None]:
        """Yield an empty transcript: of such audio a model would invent one."""
        async with self.admission.slot(chat.ticket) as waited:
            yield Admitted(waited)
            yield Ending(FinishReason.STOP)
            segments = None if chat.windows is None else ()
            yield Finished(0, chat.language or DEFAULT_LANGUAGE, segments)

    async def _windows(
        self, request: EngineRequest, windows: Windows, language: str
    ) -> AsyncGenerator[Event, None]:
        """Yield what happens to audio that is read window by window."""
        tokens, segments = 0, tuple[Segment, ...]()
        async with aclosing(transcribed(self.engine, request, windows)) as texts:
            async for one in texts:
                tokens += one.tokens
                segments += one.segments
                yield Piece(one.text, one.tokens)
                if one.reason is not None:
                    yield Ending(one.reason)
        yield Finished(tokens, language, segments)

    async def _detected(self, request: EngineRequest) -> str:
        """Return the language of audio; a slot of the engine is taken for one token."""
        assert isinstance(self.engine, Scorer)  # noqa: S101  # else no language is detected
        assert self.preparation.audio_reader is not None  # noqa: S101  # it made the request's prompt
        question = first_token(request, self.preparation.audio_reader.question)
        return self.preparation.audio_reader.detected(await self.engine.first_logits(question))

    def _prefix(self, language: str, chat: PreparedChat) -> str:
        assert self.preparation.audio_reader is not None  # noqa: S101  # as above
        timed = chat.windows is not None
        return self.preparation.audio_reader.prefix(language, chat.task, timed=timed)[0]


def _engine_request(chat: PreparedChat, request_id: str, choice: int, sample: int) -> EngineRequest:
    """Return what the engine generates of one choice.

    Each of a prompt has a seed of its own. Those of other prompts have the same ones: a prompt
    beside others is answered as it is alone.
    """
    drawn, windows = chat.request.sampling, chat.windows
    return replace(
        chat.request,
        request_id=f"{request_id}-{choice}" if choice else request_id,
        spectrogram=None if windows is None else windows.cut(0),
        sampling=replace(drawn, seed=(drawn.seed + sample) % 2**64) if sample else drawn,
        trace=continued(),
    )
