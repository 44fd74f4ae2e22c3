"""Tokens: whether a prompt and its answer fit the engine."""

from dataclasses import dataclass

from mm_edge.errors import InvalidRequestError
from mm_runtime.serving.prompts.tokens import surely_exceeds


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """Limits of the engine, in tokens; image features count as tokens.

    Attributes:
        decoder_tokens: an encoder-decoder's answer follows these tokens, and its prompt has a
            limit of its own; None: prompt and answer share one sequence.
    """

    max_input_len: int
    max_seq_len: int
    decoder_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """What one request uses."""

    prompt_tokens: int
    image_tokens: int
    max_tokens: int
    cross_attention_tokens: int = 0
    """Features of images that cross attention reads; they take no place in the prompt."""

    @property
    def features(self) -> int:
        """All features of images and videos, in the prompt or beside it."""
        return self.image_tokens + self.cross_attention_tokens

    @property
    def input_tokens(self) -> int:
        return self.prompt_tokens + self.cross_attention_tokens

    def most_tokens(self, choices: int) -> int:
        return self.input_tokens + choices * self.max_tokens

    @property
    def text_tokens(self) -> int:
        return self.prompt_tokens - self.image_tokens


def budget_tokens(
    limits: ContextLimits,
    *,
    text_tokens: int,
    image_tokens: int = 0,
    images: int = 0,
    wanted: int | None,
    param: str = "messages",
) -> TokenBudget:
    """Return the tokens of a request; `wanted` None: an answer takes what is left of the sequence.

    Raises:
        InvalidRequestError: prompt, or prompt and answer, do not fit.
    """
    prompt = text_tokens + image_tokens
    composed = f" ({image_tokens} of them for {images} image(s))" if images else ""
    if prompt > limits.max_input_len:
        raise _too_long(
            f"This model takes prompts of at most {limits.max_input_len} tokens. "
            f"{_of(param)} {prompt} tokens{composed}. Shorten the {param}.",
            param,
        )
    if limits.decoder_tokens is not None:
        return TokenBudget(prompt, image_tokens, _own_answer(limits, limits.decoder_tokens, wanted))
    left = limits.max_seq_len - prompt
    answer = left if wanted is None else wanted
    if answer > left or answer < 1:
        raise _too_long(
            f"This model's maximum context length is {limits.max_seq_len} tokens. You requested "
            f"{prompt + max(answer, 1)} tokens ({prompt} in the {param}{composed}, "
            f"{max(answer, 1)} in the completion). Shorten the {param} or request fewer.",
            param,
        )
    return TokenBudget(prompt_tokens=prompt, image_tokens=image_tokens, max_tokens=answer)


def check_characters(limits: ContextLimits, prompt: str, param: str) -> None:
    """Refuse a prompt whose tokens need not be counted."""
    if surely_exceeds(prompt, limits.max_input_len):
        raise _too_long(
            f"This model takes prompts of at most {limits.max_input_len} tokens. "
            f"{_of(param)} {len(prompt)} characters. Shorten the {param}.",
            param,
        )


def _of(param: str) -> str:
    return f"Your {param} {'have' if param.endswith('s') else 'has'}"


def _own_answer(limits: ContextLimits, begun: int, wanted: int | None) -> int:
    left = limits.max_seq_len - begun
    if wanted is not None and wanted > left:
        raise _too_long(
            f"This model's answers have at most {left} tokens. You requested {wanted}: request "
            "fewer.",
            "max_tokens",
        )
    return left if wanted is None else wanted


def _too_long(message: str, param: str) -> InvalidRequestError:
    return InvalidRequestError(message, param=param, code="context_length_exceeded")
