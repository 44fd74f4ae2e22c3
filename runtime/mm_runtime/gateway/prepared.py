"""A checked request with everything the engine needs: a chat for each of its prompts."""

from collections.abc import Callable
from dataclasses import dataclass

from mm_runtime.gateway.admission.fair_queue import PLAIN, Ticket
from mm_runtime.gateway.admission.tokens import TokenBudget
from mm_runtime.gateway.api.audio import TRANSCRIBE
from mm_runtime.gateway.backends.engine import EngineRequest
from mm_runtime.gateway.media.as_sent import AsSent, held_bytes
from mm_runtime.gateway.media.audio_reader import Windows


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """One prompt with everything the engine needs."""

    request: EngineRequest
    """The first choice's, still without an id; audio comes with its prefix."""
    budget: TokenBudget
    stops: tuple[str, ...]
    language: str = ""
    """Language of the audio, as the client named it or by default; empty: the engine detects it
    first."""
    task: str = TRANSCRIBE
    """What is done with the audio."""
    windows: Windows | None = None
    """Audio instead of the request's, read window by window; the answer has time stamps."""
    seconds: float = 0.0
    """Length of the audio."""
    silent: bool = False
    """Nothing is in the audio: its transcript is empty, and the model is not run."""
    choices: int = 1
    """Answers that are generated to this prompt."""
    ticket: Ticket = PLAIN
    """For each choice: how it waits for a slot."""

    @property
    def media_bytes(self) -> int:
        """Memory of pixels and samples, held until the answer ends."""
        sent = self.request
        media = (*sent.images, *sent.videos, sent.audio, *sent.recordings)
        windows = 0 if self.windows is None else self.windows.frames.nbytes
        return windows + held_bytes(*(one for one in media if one is not None))


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The prompts of one request, which are answered beside each other, each as often."""

    chats: tuple[PreparedChat, ...]

    @property
    def choices(self) -> int:
        return sum(chat.choices for chat in self.chats)

    @property
    def image_count(self) -> int:
        return sum(len(chat.request.images) for chat in self.chats)

    @property
    def held_bytes(self) -> int:
        """Memory of pixels and samples, held until the answer ends."""
        return sum(chat.media_bytes for chat in self.chats)

    @property
    def seconds(self) -> float:
        return sum(chat.seconds for chat in self.chats)

    @property
    def prompt_tokens(self) -> int:
        return sum(chat.budget.prompt_tokens for chat in self.chats)

    @property
    def features(self) -> int:
        """All features of images and videos, in prompts or beside them."""
        return sum(chat.budget.features for chat in self.chats)

    @property
    def text_tokens(self) -> int:
        return sum(chat.budget.text_tokens for chat in self.chats)

    @property
    def input_tokens(self) -> int:
        return sum(chat.budget.input_tokens for chat in self.chats)

    @property
    def most_tokens(self) -> int:
        return sum(chat.budget.most_tokens(chat.choices) for chat in self.chats)

    def close(self) -> None:
        """End the checks of images that have not ended; the answer has, or there is none."""
        for chat in self.chats:
            for image in chat.request.images:
                if isinstance(image, AsSent) and image.check is not None:
                    image.check.cancel()

    def with_each(self, change: Callable[[PreparedChat], PreparedChat]) -> "PreparedRequest":
        return PreparedRequest(tuple(map(change, self.chats)))
