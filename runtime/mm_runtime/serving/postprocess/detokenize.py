"""Text of a stream of tokens, piece by piece.

The pieces of one answer, joined, are exactly the text of all its tokens: spaces included, and a
character that spans several tokens appears once it is complete.
"""

from collections.abc import Callable, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What a decoder writes for bytes that are no complete character yet."""


def text_delta(
    decode: Callable[[Sequence[int]], str],
    previous: Sequence[int],
    new: Sequence[int],
    *,
    last: bool,
) -> str:
    """Return the text that `new` adds to what was already given out for `previous`.

    Decoding starts at the first token each time: what a token adds depends on its neighbours. Costs
    are quadratic in the answer's length and stay under a millisecond for thousands of tokens.

    `last`: give out an incomplete character too, because nothing can complete it.
    """
    text = decode([*previous, *new])
    given = _complete(decode(previous)) if previous else ""
    return (text if last else _complete(text))[len(given) :]


def _complete(text: str) -> str:
    return text.rstrip(REPLACEMENT)
