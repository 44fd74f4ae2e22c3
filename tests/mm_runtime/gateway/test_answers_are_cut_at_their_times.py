"""Tokens with time stamps become segments, as transformers cuts them."""

import numpy as np
import pytest
import torch
from transformers import WhisperForConditionalGeneration

from mm_runtime.gateway.api.segments import parts_of
from support.cases import cases

FIRST, FRAMES = 100, 100


def theirs(
    answer: list[int], seek: int, frames: int
) -> tuple[list[tuple[float, float, tuple[int, ...]]], int]:
    """Return segments and the frames that are done, as transformers finds them."""
    segments, done = WhisperForConditionalGeneration._retrieve_segment(
        seek_sequence=torch.tensor(answer),
        seek_outputs=[{}],
        time_offset=torch.tensor([seek * 0.01], dtype=torch.float64),
        timestamp_begin=FIRST,
        seek_num_frames=torch.tensor([frames]),
        time_precision=0.02,
        time_precision_features=0.01,
        input_stride=2,
        prev_idx=0,
        idx=0,
        return_token_timestamps=False,
        decoder_input_ids=torch.zeros((1, 3)),
    )
    found = [
        (float(one["start"]), float(one["end"]), tuple(one["tokens"].tolist())) for one in segments
    ]
    return found, int(done)


def random_answer(rng: np.random.Generator) -> list[int]:
    answer, time = [], 0
    for _ in range(rng.integers(1, 5)):
        end = min(time + int(rng.integers(1, 12)), 49)
        answer += [FIRST + time, *rng.integers(0, 90, rng.integers(1, 4)).tolist(), FIRST + end]
        time = min(end + int(rng.integers(0, 3)), 49)
    return answer[: rng.integers(1, len(answer) + 1)]


def test_segments_are_those_of_transformers() -> None:
    """Five hundred answers, complete or cut off."""
    rng = np.random.default_rng(7)
    for _ in range(500):
        answer, frames = random_answer(rng), int(rng.integers(50, FRAMES + 1))
        seek = int(rng.integers(0, 10_000))
        expected, done = theirs(answer, seek, frames)
        parts, found = parts_of(answer, first_time=FIRST, seek=seek, frames=frames)
        assert [one.tokens for one in parts] == [tokens for *_, tokens in expected]
        starts, ends, _ = zip(*expected, strict=True)
        assert [one.start for one in parts] == pytest.approx(starts)
        # Theirs divides 0.6 by 0.02, which is 29.99, and cuts off what is no integer.
        assert [one.end for one in parts] == pytest.approx(ends, abs=0.0201)
        # A time beyond the audio, and one that does not move on: their loop is ours to end.
        assert found == (done if 0 < done <= frames else frames)


@cases(
    "answer parts done",
    {
        "nothing": ([], [(1.0, 2.0, ())], FRAMES),
        "no-times": ([7], [(1.0, 2.0, (7,))], FRAMES),
        "no-step": ([100, 7, 100, 100], [(1.0, 1.0, (100, 7, 100, 100))], FRAMES),
        "cut-off-at-the-pair": ([100, 7, 110, 110, 8], [(1.0, 1.2, (100, 7, 110, 110))], 20),
    },
)
def test_edges(answer: list[int], parts: list[object], done: int) -> None:
    found = parts_of(answer, first_time=FIRST, seek=100, frames=FRAMES)
    assert ([(one.start, one.end, one.tokens) for one in found[0]], found[1]) == (parts, done)
