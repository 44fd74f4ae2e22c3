"""PURE: whether a prompt and the answer that is wanted are within the limits of the plan."""

from mm_api.documents.build_plan import EngineLimits
from mm_runtime.serving.errors import RequestError


def check_lengths(prompt: int, answer: int, limits: EngineLimits) -> None:
    """Refuse what no slot can hold.

    `prompt`: its tokens, image features included. `answer`: tokens that the client wants at the
    most.

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
