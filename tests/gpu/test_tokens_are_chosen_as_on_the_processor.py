"""A GPU chooses the tokens that the processor chooses, within the memory that a plan counts.

Run with `pytest -m gpu tests/gpu`.
"""

import numpy as np
import pytest
import torch

from mm_runtime.reference_engine.choosing import choose_all
from mm_runtime.reference_engine.sampling import TokenChooser
from mm_runtime.serving.device import open_device
from mm_runtime.serving.generate.request import Request, Sampling

pytestmark = pytest.mark.gpu

SAMPLED_BYTES = 64
"""`plan/engine/reference_memory.py` of the operator counts so many for each logit."""

SAMPLINGS = [
    Sampling(top_p=1.0, seed=1),
    Sampling(top_k=40, top_p=0.95, temperature=0.8, seed=2),
    Sampling(top_p=0.9, seed=3, frequency_penalty=0.4, presence_penalty=0.2),
    Sampling(),
    Sampling(repetition_penalty=1.4, top_p=1.0, temperature=1.7, seed=4),
    Sampling(min_tokens=50, top_k=8, seed=6),
    Sampling(top_p=1.0, min_p=0.1, seed=7),
]


def choosers(size: int, device: torch.device) -> list[TokenChooser]:
    bias = np.random.default_rng(1).normal(size=size).astype(np.float32)
    return [
        TokenChooser(
            Request(
                ids=tuple(range(at, at + 20)),
                max_tokens=9,
                end_ids=frozenset({2}),
                sampling=SAMPLINGS[at % len(SAMPLINGS)],
                bad=((7,), (5, 9)),
                bias=bias if at % 5 == 0 else None,
            ),
            size,
            device,
        )
        for at in range(32)
    ]


@pytest.mark.parametrize("size", [300, 32_064, 152_064])
def test_the_same_tokens(size: int) -> None:
    device = open_device("CUDA")
    chance = torch.Generator().manual_seed(size)
    for step in range(8):
        logits = torch.randn((32, size), generator=chance) * 4
        answer = [*range(10, 10 + step), 5]
        found = []
        for place in (device, torch.device("cpu")):
            rules = [one.rules(answer) for one in choosers(size, place)]
            found.append(choose_all(logits.to(place), rules, [5] * 32))
        here = [one.token for one in found[0]]
        assert here == [one.token for one in found[1]]
        assert np.allclose(
            [one.log_prob for one in found[0]], [one.log_prob for one in found[1]], atol=1e-4
        )
        rules = [one.rules(answer) for one in choosers(size, device)]
        on_gpu = logits.to(device)
        alone = [
            choose_all(on_gpu[row : row + 1], [rules[row]], [None])[0].token for row in range(32)
        ]
        assert alone == here


@pytest.mark.parametrize("size", [32_064, 152_064])
def test_the_memory_is_what_the_plan_counts(size: int) -> None:
    """At its fullest moment, beside the logits themselves."""
    device = open_device("CUDA")
    logits = torch.randn((32, size), device=device)
    sampled = [
        TokenChooser(
            Request(ids=(1,), max_tokens=1, end_ids=frozenset(), sampling=SAMPLINGS[1]),
            size,
            device,
        ).rules([])
    ] * 32
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    choose_all(logits, sampled, [None] * 32)
    taken = torch.cuda.max_memory_allocated() - before
    copies = 2 * logits.nbytes  # of rows that have rules, and after these rules
    counted = min(32 * size, max(1 << 20, size)) * SAMPLED_BYTES
    assert taken - copies <= counted
