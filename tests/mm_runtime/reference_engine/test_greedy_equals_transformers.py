"""Greedy answers equal `transformers.generate` token for token, however requests are mixed."""

import numpy as np
import pytest
import torch
from transformers import LlavaForConditionalGeneration

from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.serving.generate.request import Request
from support.cases import cases
from support.collecting_sink import CollectingSink, answers_of
from support.engines import StartEngine, engine_starter, tiny_checkpoint
from support.tiny_llava import CHECKPOINT, END_ID, FEATURES_PER_IMAGE, VOCABULARY

HIDDEN = 128


def _requests(count: int, *, end_ids: frozenset[int]) -> list[Request]:
    rng = np.random.default_rng(7)
    requests = []
    for _ in range(count):
        rows = int(rng.integers(0, 3)) * FEATURES_PER_IMAGE
        words = rng.integers(5, VOCABULARY, int(rng.integers(3, 300))).tolist()
        table = rng.normal(size=(rows, HIDDEN)).astype(np.float16)
        requests.append(
            Request(
                ids=(2, *range(VOCABULARY, VOCABULARY + rows), *words),
                max_tokens=int(rng.integers(1, 60)),
                end_ids=end_ids,
                table=table if rows else None,
            )
        )
    return requests


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_engines_run(dtype: str) -> None:
    """A prompt table of another dtype than the weights' is converted."""
    model = LanguageModel(tiny_checkpoint(dtype=dtype, slots=1, max_length=64))
    table = np.ones((FEATURES_PER_IMAGE, HIDDEN), dtype=np.float32)
    ids = (2, *range(VOCABULARY, VOCABULARY + FEATURES_PER_IMAGE), 10)
    with engine_starter(model)(max_batch_size=1, max_seq_len=64) as engine:
        sink = CollectingSink()
        engine.submit(Request(ids=ids, max_tokens=5, end_ids=frozenset(), table=table), sink)
        assert len(sink.wait()) == 5


@pytest.fixture(scope="module")
def reference() -> LlavaForConditionalGeneration:
    return LlavaForConditionalGeneration.from_pretrained(CHECKPOINT).eval()


def _expected(
    reference: LlavaForConditionalGeneration, model: LanguageModel, request: Request
) -> list[int]:
    embedded = model.embed(request.ids, request.table)[None].clone()
    with torch.no_grad():
        ids = reference.generate(
            inputs_embeds=embedded,
            attention_mask=torch.ones(embedded.shape[:2], dtype=torch.long),
            max_new_tokens=request.max_tokens,
            do_sample=False,
            eos_token_id=list(request.end_ids) or VOCABULARY + 1,
        )[0].tolist()
    ended = [at for at, token in enumerate(ids) if token in request.end_ids]
    return ids[: ended[0]] if ended else ids


@cases("prompt_rows", {"full prompts": 1024, "prompts in parts of 3": 3})
@cases("end_ids", {"ended by the model": frozenset({END_ID}), "to the limit": frozenset[int]()})
def test_mixed_requests(
    start_engine: StartEngine,
    language_model: LanguageModel,
    reference: LlavaForConditionalGeneration,
    prompt_rows: int,
    end_ids: frozenset[int],
) -> None:
    requests = _requests(12, end_ids=end_ids)
    expected = [_expected(reference, language_model, request) for request in requests]
    with start_engine(prompt_rows=prompt_rows) as engine:
        assert expected == answers_of(engine, requests)
