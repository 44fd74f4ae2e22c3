"""`echo` with `logprobs`: scores of a prompt's tokens, read in parts beside other answers.

Run with `pytest -m gpu tests/gpu`.
"""

import numpy as np
import pytest
import torch

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.fused.kernels import Kernels
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.prompt_scores import SCORED_ROWS
from mm_runtime.serving.device import CPU, open_device
from mm_runtime.serving.generate.request import PromptScores, Request, Wanted
from support.collecting_sink import CollectingSink
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.tiny_llava import CHECKPOINT

pytestmark = pytest.mark.gpu

PROMPT = tuple(5 + (7 * at + at * at) % 80 for at in range(3 * SCORED_ROWS))
LIKELIEST = 3
SCORED = Request(
    ids=PROMPT, max_tokens=2, end_ids=frozenset(), wanted=Wanted(prompt_likeliest=LIKELIEST)
)
OTHER = Request(ids=PROMPT[:9], max_tokens=60, end_ids=frozenset())
WITHIN = {"float32": 1e-3, "bfloat16": 0.5}
"""Of log probabilities; bfloat16 moved them by up to 0.33 on an H100."""


def scores(
    device: torch.device, kernels: Kernels | None, dtype: str, prompt_rows: int
) -> tuple[PromptScores, list[list[int]]]:
    """Return the scores of a prompt between two answers, and those."""
    checkpoint = Checkpoint(
        folder=CHECKPOINT,
        family="llava",
        dtype=dtype,
        slots=SLOTS,
        max_length=MAX_LENGTH,
        device=device,
        kernels=kernels,
    )
    sinks = [CollectingSink() for _ in range(3)]
    with engine_starter(LanguageModel(checkpoint))(prompt_rows=prompt_rows) as engine:
        for request, sink in zip((OTHER, SCORED, OTHER), sinks, strict=True):
            engine.submit(request, sink)
        for sink in sinks:
            sink.wait()
    found = sinks[1].pieces[0].prompt_scores
    assert found is not None
    return found, [sinks[0].ids, sinks[2].ids]


@pytest.mark.parametrize("prompt_rows", [1024, 7, SCORED_ROWS + 1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "modules"])
def test_scores_equal_the_processors(*, fused: bool, dtype: str, prompt_rows: int) -> None:
    """Own scores and the likeliest ones; answers beside them stay the same."""
    device = open_device("CUDA")
    kernels = open_kernels(device) if fused else None
    found, answers = scores(device, kernels, dtype, prompt_rows)
    expected, expected_answers = scores(CPU, None, "float32", 1024)
    assert found.ids == expected.ids
    assert found.log_probs == pytest.approx(expected.log_probs, abs=WITHIN[dtype])
    assert found.likeliest_log_probs[1:] == pytest.approx(
        expected.likeliest_log_probs[1:], abs=WITHIN[dtype]
    )
    assert answers[0] == answers[1]
    if dtype == "float32":
        assert answers == expected_answers
        same = found.likeliest == expected.likeliest
        # Two that are as likely as each other may change places.
        assert np.mean(same) > 0.95
