"""PURE: how much of a prompt a step reads while other requests decode.

A step reads weights once, for all its rows; rows of a prompt beside decoding ones cost what they
compute. An image's prompt read in one step would be a pause in every running answer; so a step
takes a few rows of it, and answers continue.
"""

from math import ceil

from mm_runtime.reference_engine.options import EngineOptions

LONGEST_STEPS = 64
"""Steps that a prompt takes at the most once it is its turn: a video's would else take hundreds."""

WAITING_SHARE = 0.5
"""When more wait than this share of those that decode, parts grow with the square of the ratio: few
would decode together else, and all be slower. Sixteen clients of 20 tokens with prompts of 90 had
5.5 in a step when parts grew with the ratio itself, 8.6 to 12.9 so (tiny model, slots for 16)."""


def rows_of_prompt(
    options: EngineOptions, *, prompt: int, left: int, decoding: int, waiting: int
) -> int:
    """Return how many rows of a prompt the next step reads.

    `prompt`: rows of the complete prompt, of which some are `left`. `decoding`: requests that the
    step decodes: those that a long step holds up. `waiting`: requests without a token that there
    are slots for, the prompt's own among them: those that a small part holds up.
    """
    room = max(1, options.limits.max_num_tokens - decoding)
    if not decoding:
        return min(left, room)
    fair = int(options.prompt_rows * max(1.0, waiting / (WAITING_SHARE * decoding)) ** 2)
    if fair < options.grown_rows:
        fair = options.prompt_rows
    return min(left, room, max(fair, ceil(prompt / LONGEST_STEPS)))
