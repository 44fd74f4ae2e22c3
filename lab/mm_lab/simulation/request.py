"""One request of a trace."""

from typing import NamedTuple


class Request(NamedTuple):
    """When it arrives, in seconds from the trace's start, and how long it is, in tokens.

    A tuple, because a trace has hundreds of thousands of them.
    """

    at: float
    image_tokens: int
    text_tokens: int
    output_tokens: int
