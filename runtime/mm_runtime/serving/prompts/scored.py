"""PURE: how many scores of a prompt one request may have."""

from mm_runtime.serving.errors import RequestError

MOST_SCORES = 65_536
"""Of the tokens of all prompts of a request, their own and the likeliest ones' together: prompts of
32,768 tokens with one beside each, or of 3,120 with twenty. In a gateway they are up to 92 MB,
which it takes from what bodies share (`mm_runtime.gateway.prepared.STATED_SCORE_BYTES`)."""


def check_count(tokens: int, likeliest: int) -> None:
    """Refuse more scores than a request may have.

    Args:
        tokens: of its prompts, together.
        likeliest: wanted beside each token's own.

    Raises:
        RequestError: there are more.
    """
    wanted = tokens * (1 + likeliest)
    if wanted > MOST_SCORES:
        raise RequestError(
            f"{wanted} scores of the prompt are wanted, {1 + likeliest} of each of {tokens} tokens;"
            f" at most {MOST_SCORES} are computed for a request"
        )
