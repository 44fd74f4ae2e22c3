"""PURE: how much of a prompt a step reads while other requests decode.

A step reads weights once, for all its rows; rows of a prompt beside decoding ones cost what they
compute. Read whole, a picture's prompt would be a pause in every running answer; so a step takes a
few rows of it, and answers go on.
"""

from dataclasses import dataclass
from math import ceil

LONGEST_STEPS = 64
"""Steps that a prompt takes at the most once it is its turn: a video's would else take hundreds."""

WAITING_SHARE = 0.5
"""When more wait than this share of those that decode, parts grow with the square of the ratio: few
would decode together else, and all be slower. Sixteen clients of 20 tokens with prompts of 90 had
5.5 in a step when parts grew with the ratio itself, 8.6 to 12.9 so (tiny model, slots for 16)."""

LEAST_ROWS = 4
"""Rows beside decoding requests, however slow a row is: prompts must come to an end."""

ROWS_SHARE = 0.2
"""What rows of a prompt may add to a step, as a part of it. The pause between two tokens shall stay
within 1.25 of what it is without them, and the encoder takes some of the memory's bandwidth too."""

UNNOTICED_SECONDS = 0.004
"""Or this much, when a step is shorter still: no reader sees a pause of 4 ms."""

MOST_TIMES = 4
"""Times as many rows as were measured: what they cost is known no further."""


BLOCK_ROWS = 16
"""A matrix product of fewer rows than this, and more than half as many, takes longer than one of so
many: all products of `middle_llava` took 22.5 ms with 8 rows, 33.6 with 13, 23.8 with 16 and 28.4
with 24 (processor time; torch 2.15 with MKL, AVX-512, float32, one thread). Turned products
(`turned`) take as long for 13 rows as for 16, so the prompt's rows cost as little there."""


@dataclass(frozen=True)
class Shares:
    """What a step may hold."""

    max_num_tokens: int
    """Rows of all requests together."""

    beside_decoding: int
    """Rows of prompts beside decoding requests, while few wait."""


def rows_of_prompt(shares: Shares, *, prompt: int, left: int, decoding: int, waiting: int) -> int:
    """Return how many rows of a prompt the next step reads.

    Rows that the pass would compute for nobody are the prompt's.

    Args:
        shares: what a step may hold.
        prompt: rows of the whole prompt.
        left: rows of it that were not read yet.
        decoding: requests that the step decodes: those that a long step holds up.
        waiting: requests without a token that there are slots for, the prompt's own among them:
            those that a small part holds up.
    """
    room = max(1, shares.max_num_tokens - decoding)
    if not decoding:
        return min(left, room)
    fair = int(shares.beside_decoding * max(1.0, waiting / (WAITING_SHARE * decoding)) ** 2)
    rows = min(left, room, max(fair, ceil(prompt / LONGEST_STEPS)))
    return min(left, room, computed_rows(decoding + rows) - decoding)


def computed_rows(rows: int) -> int:
    """Return how many rows a pass computes for so many: some that nobody asked for cost nothing."""
    return BLOCK_ROWS if BLOCK_ROWS // 2 < rows < BLOCK_ROWS else rows


def rows_beside(one_row: float, many_rows: float, many: int) -> int:
    """Return how many rows of prompts a step may hold beside decoding requests.

    Args:
        one_row: seconds of a step with a single row: mostly reading the weights.
        many_rows: seconds of a step with many rows.
        many: how many.
    """
    each = (many_rows - one_row) / (many - 1)
    allowed = max(ROWS_SHARE * one_row, UNNOTICED_SECONDS)
    most = many * MOST_TIMES
    # What was measured may be noise: many rows that took no longer than one cost nothing.
    return most if each * most <= allowed else max(LEAST_ROWS, int(allowed / each))
