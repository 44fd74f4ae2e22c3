"""PURE: whether a prompt and the answer that is wanted are within the limits of the plan."""

from mm_api.documents.build_plan import EngineLimits
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import Request
from mm_runtime.serving.prompts.scored import check_count


def check_lengths(prompt: int, answer: int, limits: EngineLimits) -> None:
    """Refuse what no slot can hold.

    Args:
        prompt: its tokens, image features included.
        answer: tokens that the client wants at the most.
        limits: of the plan.

    Raises:
        RequestError: what is wrong and what was expected.
    """
    if not 1 <= prompt <= limits.max_input_len:
        raise RequestError(
            f"the prompt has {prompt} tokens, image features included; "
            f"1 to {limits.max_input_len} are allowed"
        )
    if prompt >= limits.max_seq_len:
        raise RequestError(
            f"the prompt has {prompt} tokens, which leaves no room for an answer within "
            f"{limits.max_seq_len}"
        )
    if answer < 1:
        raise RequestError(f"max_tokens is {answer}; it must be at least 1")


def check_scored(request: Request, vocabulary_size: int, *, scores_prompts: bool) -> None:
    """Refuse scores of a prompt that has none, or too many.

    Args:
        request: of a client.
        vocabulary_size: of the model; ids past it are rows of a prompt table.
        scores_prompts: see `SlotModel`.

    Raises:
        RequestError: what is wrong and what was expected.
    """
    likeliest = request.wanted.prompt_likeliest
    if likeliest is None:
        return
    if not scores_prompts:
        raise RequestError(
            "score_prompt: this model's prompt is read by an encoder or by the checkpoint's own "
            "processor, so that its tokens have no scores; leave it out"
        )
    if any(token >= vocabulary_size for token in request.ids):
        raise RequestError(
            "score_prompt: features of images are no tokens and have no scores; leave it out, or "
            "send a prompt of text alone"
        )
    check_count(len(request.ids), likeliest)
