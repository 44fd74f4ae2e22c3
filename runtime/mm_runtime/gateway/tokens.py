"""Tokens: whether a prompt and its answer fit the engine, and how many were generated."""

from dataclasses import dataclass

from mm_runtime.gateway.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """Limits of the engine, in tokens; image features count as tokens."""

    max_input_len: int
    max_seq_len: int
    features_per_image: int


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """What one request uses."""

    prompt_tokens: int
    image_tokens: int
    max_tokens: int


def budget_tokens(
    limits: ContextLimits, *, text_tokens: int, images: int, wanted: int | None
) -> TokenBudget:
    """Return the tokens of a request.

    Args:
        limits: of the engine.
        text_tokens: tokens of the prompt, each image's placeholder counted as one.
        images: number of images.
        wanted: most tokens to generate; None means what is left of the sequence.

    Raises:
        InvalidRequestError: prompt, or prompt and answer, do not fit.
    """
    image_tokens = images * limits.features_per_image
    prompt = text_tokens - images + image_tokens
    composed = f" ({image_tokens} of them for {images} image(s))" if images else ""
    if prompt > limits.max_input_len:
        raise _too_long(
            f"This model takes prompts of at most {limits.max_input_len} tokens. Your messages "
            f"have {prompt} tokens{composed}. Shorten them."
        )
    left = limits.max_seq_len - prompt
    answer = left if wanted is None else wanted
    if answer > left or answer < 1:
        raise _too_long(
            f"This model's maximum context length is {limits.max_seq_len} tokens. You requested "
            f"{prompt + max(answer, 1)} tokens ({prompt} in the messages{composed}, "
            f"{max(answer, 1)} in the completion). Shorten the messages or ask for fewer."
        )
    return TokenBudget(prompt_tokens=prompt, image_tokens=image_tokens, max_tokens=answer)


def _too_long(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, param="messages", code="context_length_exceeded")


class TokenCounter:
    """Counts generated tokens by the engine's responses: one a token, then one for the end.

    The response of the end-of-sequence token has no text. A token can have none either, while the
    rest of a character is awaited; so an empty response counts once another one follows it.
    """

    def __init__(self) -> None:
        self._counted = 0
        self._empty = 0

    def add(self, piece: str) -> None:
        """Take the text of one response."""
        if piece:
            self._counted += 1 + self._empty
            self._empty = 0
        else:
            self._empty += 1

    @property
    def total(self) -> int:
        """Tokens of the answer, without its end-of-sequence token."""
        return self._counted + max(0, self._empty - 1)
