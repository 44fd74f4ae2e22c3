"""Which tokens may follow an answer with time stamps: transformers' rules, on random answers."""

import json

import numpy as np
import pytest
import torch
from transformers import GenerationConfig
from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

from mm_runtime.reference_engine.choosing import restricted
from mm_runtime.reference_engine.guides import TimestampGuide
from mm_runtime.reference_engine.sampling import Rules
from mm_runtime.serving.errors import RequestError
from support.cases import cases

SIZE, END, FIRST, BEGUN = 60, 20, 30, 3


@pytest.mark.parametrize("latest", [None, 4], ids=["any-start", "early-start"])
def test_logits(latest: int | None) -> None:
    rng = np.random.default_rng(5)
    config = GenerationConfig(eos_token_id=END, no_timestamps_token_id=FIRST - 1)
    config.max_initial_timestamp_index = latest
    theirs = WhisperTimeStampLogitsProcessor(config, begin_index=BEGUN)
    ours = TimestampGuide(first_time=FIRST, latest_start=latest, size=SIZE, end=END)
    answer: list[int] = []
    for _ in range(1000):
        logits = torch.from_numpy(rng.normal(size=(1, SIZE)).astype(np.float32) * 3)
        expected = theirs(torch.tensor([[0] * BEGUN + answer]), logits)
        rules = Rules(allowed=ours.allowed(answer), together_from=ours.together_from)
        found = restricted(logits, [rules])
        assert torch.equal(found, expected)
        drawn = int(found.softmax(dim=-1).multinomial(1)) if found.isfinite().any() else END
        answer = [] if drawn == END or len(answer) > 30 else [*answer, drawn]


@cases(
    "text",
    {
        "nothing": "",
        "list": "[1]",
        "past-the-end": json.dumps({"first_time": 60, "latest_start": None}),
        "no-number": json.dumps({"first_time": True, "latest_start": None}),
        "negative": json.dumps({"first_time": 30, "latest_start": -1}),
    },
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=r"guided_decoding_guide \(timestamps\): expected"):
        TimestampGuide.read(text, size=SIZE, end=END)
