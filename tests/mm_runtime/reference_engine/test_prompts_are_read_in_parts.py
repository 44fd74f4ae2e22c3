"""How much of a prompt a step reads: pure decisions."""

from mm_runtime.reference_engine.schedule import LONGEST_STEPS, rows_of_prompt
from support.cases import cases
from support.engines import changed

OPTIONS = changed(max_num_tokens=100, prompt_rows=6)


@cases(
    "expected prompt left decoding waiting",
    {
        "no request is held up": (80, 80, 80, 0, 1),
        "not past what the engine was built for": (100, 400, 400, 0, 1),
        "a part beside running answers": (6, 80, 80, 12, 1),
        "the rest of it": (2, 80, 2, 8, 1),
        "images of four clients share one part": (6, 80, 80, 12, 4),
        "as many wait as decode": (24, 80, 80, 8, 8),
        "many wait beside a few": (80, 80, 80, 2, 14),
        "room beside many running answers": (4, 80, 80, 96, 4),
        "a prompt continues in a full step": (1, 80, 80, 100, 1),
        "a long prompt comes to its end": (50, 3200, 3200, 8, 1),
    },
)
def test_rows_of_a_step(expected: int, prompt: int, left: int, decoding: int, waiting: int) -> None:
    """The more answers a step holds up, the less it reads; the more wait, the more."""
    found = rows_of_prompt(OPTIONS, prompt=prompt, left=left, decoding=decoding, waiting=waiting)
    assert expected == found


def test_long_prompts_end() -> None:
    options, left, steps = changed(max_num_tokens=8192, prompt_rows=6), 8000, 0
    while left:
        left -= rows_of_prompt(options, prompt=8000, left=left, decoding=8, waiting=1)
        steps += 1
    assert steps == LONGEST_STEPS


@cases(
    "expected waiting",
    {
        "few wait": (6, 4),
        "a little longer would need a pass of its own": (6, 5),
        "just below": (6, 7),
        "long enough for one": (24, 8),
        "longer": (54, 12),
    },
)
def test_parts_grow_by_a_step(expected: int, waiting: int) -> None:
    options = changed(max_num_tokens=100, prompt_rows=6, grown_rows=24)
    found = rows_of_prompt(options, prompt=80, left=80, decoding=8, waiting=waiting)
    assert expected == found


def test_a_very_long_prompt_ends_where_parts_grow_by_a_step() -> None:
    options = changed(max_num_tokens=8192, prompt_rows=6, grown_rows=24)
    assert rows_of_prompt(options, prompt=640, left=640, decoding=8, waiting=1) == 10
