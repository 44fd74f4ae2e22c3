"""The requests and answers of the engine, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.prompts.word_tensors import TokenWords

Rows: TypeAlias = Any
"""Floats [rows, width]: an array, or a torch tensor of a device; torch is not imported here."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. The defaults are greedy.

    As in TensorRT-LLM, `top_k` 0 and `top_p` 0 both mean "not set", and with neither set decoding
    is greedy. To sample from the full distribution, set `top_p` to 1.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in the prompt or the answer."""

    presence_penalty: float = 0.0
    """Subtracted once from tokens that the answer already holds (OpenAI's definition)."""

    frequency_penalty: float = 0.0
    """Subtracted for each time the answer already holds the token (OpenAI's definition)."""

    min_tokens: int = 0
    """No end token before this many tokens."""

    seed: int = 0
    min_p: float = 0.0
    """Tokens less likely than this part of the likeliest one are not drawn."""

    @property
    def nucleus(self) -> float:
        """Share of the mass that is drawn from: 1 is all of it."""
        return self.top_p if 0.0 < self.top_p < 1.0 else 1.0

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        unset = self.top_k == 0 and self.top_p == 0.0
        return unset or self.top_k == 1 or self.temperature == 0.0


@dataclass(frozen=True)
class Wanted:
    """What to return besides tokens. Logits are large, log probabilities are not."""

    log_probs: bool = False
    likeliest: int = 0
    """Tokens whose log probabilities are returned at each place, the likeliest first."""

    generation_logits: bool = False


class GuideKind(StrEnum):
    """Forms of answers, as TensorRT-LLM names them."""

    JSON = "json"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    """No form of TensorRT-LLM's: a grammar in llguidance's own dialect."""

    TIMESTAMPS = "timestamps"
    """Neither: the pairs of time stamps that Whisper writes around its text."""


@dataclass(frozen=True)
class GuideRequest:
    """The form that an answer must have."""

    kind: GuideKind
    text: str
    """Text of the schema or the pattern; empty: any JSON object."""


class TokenGuide(Protocol):
    """Follows one answer of a form."""

    together_from: int | None
    """Tokens from this one on, where they are likelier together than any other: one of them
    comes next. None: each counts by itself."""

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Return [vocabulary]: which tokens may come after an answer, which only ever grows."""


@dataclass(frozen=True)
class RawImages:
    """A prompt that the checkpoint's own processor turns into tokens."""

    text: str
    """With a placeholder for each image."""

    pixels: NDArray[np.uint8] | None = None
    """Raw RGB [images, height, width, 3], padded to the right and below; None: no images."""

    sizes: NDArray[np.int64] | None = None
    """Height and width of each image."""


@dataclass(frozen=True)
class Request:
    """One prompt and how to continue it."""

    ids: tuple[int, ...]
    """Prompt token ids; an id of vocabulary size + n stands for row n of `table`.

    For an encoder-decoder: what the encoder reads.
    """

    max_tokens: int
    end_ids: frozenset[int]
    """Tokens that end the answer; they are not part of it."""

    table: Rows | None = None
    """Prompt embedding table, [rows, hidden]."""

    row_ids: NDArray[np.uint64] | None = None
    """[ids]: which image each feature of the prompt is of, 0 for tokens. None: unknown."""

    salt: str = ""
    """What is kept of a prompt is found by requests of the same salt only."""

    adapter: int | None = None
    """Id of the LoRA adapter that answers. None: the base model."""

    decoder_ids: tuple[int, ...] = ()
    """Encoder-decoders: what the decoder reads first."""

    features: Rows | None = None
    """What cross attention reads: [positions, hidden] of images, or a spectrogram
    [frames, bins]."""

    cross_mask: NDArray[np.bool_] | None = None
    """[tokens, positions]: which tokens see which features."""

    raw_images: RawImages | None = None
    """Set: `ids` and `tensors` are made of them before the request is submitted."""

    tensors: Mapping[str, Any] = field(default_factory=dict)
    """What the checkpoint's own class reads beside `ids`, by its names of them."""

    rotation: NDArray[np.float32] | None = None
    """Qwen2-VL: cosine and sine for each position and frequency, flat."""

    rotation_delta: int = 0
    """Added to a position after the prompt before it is rotated."""

    sampling: Sampling = field(default_factory=Sampling)
    stop: TokenWords = ()
    """Sequences that end the answer; they are not part of it either."""

    bad: TokenWords = ()
    """Sequences that must not appear."""

    bias: NDArray[np.float32] | None = None
    """Added to the logits, [vocabulary]."""

    form: GuideRequest | None = None
    guide: TokenGuide | None = None
    """What keeps the answer to its form, once it is made."""

    wanted: Wanted = field(default_factory=Wanted)

    @property
    def prompt(self) -> tuple[int, ...]:
        """Ids that stand before the answer: of an encoder-decoder the decoder's."""
        return self.decoder_ids or self.ids


class Finish(StrEnum):
    """Why an answer is complete."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class Piece:
    """Some more tokens of an answer."""

    ids: tuple[int, ...]
    finish: Finish | None
    """Set on the last piece, which may hold no tokens."""

    log_probs: tuple[float, ...] = ()
    """Natural logarithm of the model's own probability of each token, before any sampling rule."""

    cumulative_log_prob: float = 0.0
    """Sum over all tokens so far."""

    likeliest: tuple[tuple[int, float], ...] = ()
    """As many tokens and their log probabilities as wanted, for each token of this piece."""

    generation_logits: NDArray[np.float32] | None = None
    """[tokens of this piece, vocabulary] when wanted."""

    reused: int = 0
    """Tokens of the prompt that were known from earlier requests and not computed."""


@dataclass(slots=True)
class PrefixCounts:
    """What happened since the start, in positions of prompts and in blocks."""

    requested: int = 0
    """Positions of all prompts that could have been found."""

    reused: int = 0
    """Positions that were found, and not computed."""

    evictions: int = 0
    """Blocks that were evicted for others."""

    used_bytes: int = 0
    """Bytes of the blocks that are kept now."""


class Sink(Protocol):
    """Where the pieces of one answer go. Called from the engine's thread; must not block.

    Exactly one of these ends a request: a piece with `finish`, `fail`, or `cancelled`.
    """

    def send(self, piece: Piece) -> None:
        """Take some tokens."""

    def fail(self, error: Exception) -> None:
        """Take the error that ended the request."""

    def cancelled(self) -> None:
        """Close the request: it was dropped because its client has cancelled."""

    def is_cancelled(self) -> bool:
        """Return whether the client has cancelled."""
