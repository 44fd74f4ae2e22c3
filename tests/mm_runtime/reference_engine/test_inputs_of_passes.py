"""What a pass is given: a row for each token, rows of a part, and rows that stand for nothing."""

import torch

from mm_runtime.reference_engine.fused.inputs import CHOSEN, UNUSED, PassInputs

CPU = torch.device("cpu")
NOTHING = [0, UNUSED, 0, 0]


def test_tokens_and_a_part_are_rows_of_one_pass() -> None:
    inputs = PassInputs(8, 3, CPU)
    inputs.begin()
    inputs.decode([11, 12], [5, 9], [3, 0], [6, 9], 4)
    inputs.read(4, 4, count=2, start=30, place=1, turn=100)
    inputs.sample(range(2), 5)
    inputs.send(8)
    assert inputs.of(8).tolist() == [
        [11, 5, 3, 6],
        [12, 9, 0, 9],
        NOTHING,
        NOTHING,
        [0, 30, 1, 100],
        [0, 31, 1, 101],
        [0, UNUSED, 1, 0],
        [0, UNUSED, 1, 0],
    ]
    assert inputs.sampled(3).tolist() == [0, 1, 5]


def test_tokens_of_the_device_are_filled_in_there() -> None:
    inputs = PassInputs(4, 3, CPU)
    tokens = torch.tensor([21, 22, 23])
    inputs.begin()
    inputs.decode(tokens, [1, 2, 3], [0, 1, 2], [1, 2, 3], 4)
    inputs.send(4)
    chosen = [[CHOSEN, 1, 0, 1], [CHOSEN, 2, 1, 2], [CHOSEN, 3, 2, 3]]
    assert inputs.of(4).tolist() == [*chosen, NOTHING]


def test_nothing_of_the_pass_before_is_left() -> None:
    inputs = PassInputs(4, 3, CPU)
    for count in (4, 1):
        inputs.begin()
        inputs.decode([7] * count, [8] * count, [2] * count, [9] * count, 4)
        inputs.send(4)
    assert inputs.of(4).tolist() == [[7, 8, 2, 9], NOTHING, NOTHING, NOTHING]
