"""PURE: what may be requested of a prompt: to be repeated, how likely its tokens were."""

from mm_runtime.gateway.api.openai import CompletionRequest, SampledRequest
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.scored import check_count


def check_echo(request: CompletionRequest, model: ServedModel) -> None:
    """Refuse no answer where nothing is repeated, and scores that a model's prompts have not.

    Raises:
        InvalidRequestError: names the parameter.
    """
    if request.max_tokens == 0 and not request.echo:
        raise InvalidRequestError(
            "`max_tokens`: Input should be greater than or equal to 1. 0 is served with `echo`, "
            "which returns the prompt alone.",
            param="max_tokens",
        )
    if request.echo and request.logprobs is not None and model.prompt_scores_missing:
        raise InvalidRequestError(
            f"`logprobs` with `echo` is not served here: {model.prompt_scores_missing}. Leave one "
            "of them out.",
            param="logprobs",
            code="unsupported_parameter",
        )


def check_prompt_scores(request: SampledRequest, model: ServedModel, *, media: bool) -> None:
    """Refuse scores of prompts that have none.

    Args:
        request: of a client.
        model: that answers.
        media: images, videos or recordings are among its prompts.

    Raises:
        InvalidRequestError: says why.
    """
    why = model.prompt_scores_missing
    if media and not why:
        why = "features of images, videos and recordings are no tokens and have no scores"
    if request.prompt_logprobs is not None and why:
        raise InvalidRequestError(
            f"`prompt_logprobs` is not served here: {why}. Leave it out.",
            param="prompt_logprobs",
            code="unsupported_parameter",
        )


def check_scores(request: SampledRequest, tokens: int) -> None:
    """Refuse more scores of prompts than a request may have.

    Args:
        request: of a client.
        tokens: of all its prompts.

    Raises:
        InvalidRequestError: says how many there would be.
    """
    likeliest = request.prompt_likeliest
    if likeliest is None:
        return
    echoed = request.echoed_likeliest == likeliest
    param = "logprobs" if echoed else "prompt_logprobs"
    try:
        check_count(tokens * request.choices, likeliest)
    except RequestError as error:
        raise InvalidRequestError(
            f"`{param}`{' with `echo`' if echoed else ''}: {error}. Send fewer or shorter prompts, "
            f"or a smaller `{param}`.",
            param=param,
        ) from error
