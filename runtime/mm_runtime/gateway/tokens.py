"""Whether a prompt and its answer fit the engine, in tokens."""

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
