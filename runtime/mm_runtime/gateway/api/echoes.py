"""PURE: what may be requested of a prompt that an answer repeats (`echo`)."""

from mm_runtime.gateway.api.openai import CompletionRequest
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


def check_scores(request: CompletionRequest, tokens: int) -> None:
    """Refuse more scores of prompts than a request may have.

    Args:
        request: repeats its prompts.
        tokens: of all of them.

    Raises:
        InvalidRequestError: says how many there would be.
    """
    if request.logprobs is None:
        return
    try:
        check_count(tokens * request.choices, request.logprobs)
    except RequestError as error:
        raise InvalidRequestError(
            f"`logprobs` with `echo`: {error}. Send fewer or shorter prompts, or a smaller "
            "`logprobs`.",
            param="logprobs",
        ) from error
