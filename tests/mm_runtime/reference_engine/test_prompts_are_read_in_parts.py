"""How much of a prompt a step reads: pure decisions."""

import pytest

from mm_runtime.reference_engine.schedule import LONGEST_STEPS, Shares, rows_of_prompt

SHARES = Shares(max_num_tokens=100, beside_decoding=6)


@pytest.mark.parametrize(
    ("expected", "prompt", "left", "decoding", "waiting"),
    [
        pytest.param(80, 80, 80, 0, 1, id="no request is held up"),
        pytest.param(100, 400, 400, 0, 1, id="not past what the engine was built for"),
        pytest.param(6, 80, 80, 12, 1, id="a part beside running answers"),
        pytest.param(2, 80, 2, 8, 1, id="the rest of it"),
        pytest.param(6, 80, 80, 12, 4, id="images of four clients share one part"),
        pytest.param(24, 80, 80, 8, 8, id="as many wait as decode"),
        pytest.param(80, 80, 80, 2, 14, id="many wait beside a few"),
        pytest.param(4, 80, 80, 96, 4, id="room beside many running answers"),
        pytest.param(1, 80, 80, 100, 1, id="a prompt continues in a full step"),
        pytest.param(50, 3200, 3200, 8, 1, id="a long prompt comes to its end"),
    ],
)
def test_rows_of_a_step(expected: int, prompt: int, left: int, decoding: int, waiting: int) -> None:
    """The more answers a step holds up, the less it reads; the more wait, the more."""
    found = rows_of_prompt(SHARES, prompt=prompt, left=left, decoding=decoding, waiting=waiting)
    assert expected == found


def test_long_prompts_end() -> None:
    """Beside others a prompt of any length is read in a bounded number of steps."""
    shares, left, steps = Shares(8192, 6), 8000, 0
    while left:
        left -= rows_of_prompt(shares, prompt=8000, left=left, decoding=8, waiting=1)
        steps += 1
    assert steps == LONGEST_STEPS


@pytest.mark.parametrize(
    ("expected", "waiting"),
    [
        pytest.param(6, 4, id="few wait"),
        pytest.param(6, 5, id="a little longer would need a pass of its own"),
        pytest.param(6, 7, id="just below"),
        pytest.param(24, 8, id="long enough for one"),
        pytest.param(54, 12, id="longer"),
    ],
)
def test_parts_grow_by_a_step(expected: int, waiting: int) -> None:
    """Where a longer part has a pass of its own, it is several times as long, or not longer."""
    shares = Shares(max_num_tokens=100, beside_decoding=6, grown=24)
    found = rows_of_prompt(shares, prompt=80, left=80, decoding=8, waiting=waiting)
    assert expected == found


def test_a_very_long_prompt_ends_where_parts_grow_by_a_step() -> None:
    """The bound of its steps comes first."""
    shares = Shares(max_num_tokens=8192, beside_decoding=6, grown=24)
    assert rows_of_prompt(shares, prompt=640, left=640, decoding=8, waiting=1) == 10
