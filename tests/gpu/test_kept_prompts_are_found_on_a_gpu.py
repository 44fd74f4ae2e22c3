"""Keys and values that a GPU keeps of earlier requests give the answers that computing them gives.

Run with `pytest -m gpu tests/gpu`.
"""

import numpy as np
import pytest

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.prefix_keys import BLOCK
from mm_runtime.serving.device import open_device
from mm_runtime.serving.generate.request import Request
from support.collecting_sink import CollectingSink
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.tiny_llava import CHECKPOINT, VOCABULARY

pytestmark = pytest.mark.gpu

ROWS, HIDDEN = 20, 128
PROMPT = tuple(range(5, 15)) + tuple(range(VOCABULARY, VOCABULARY + ROWS)) + tuple(range(15, 35))
IMAGE = np.random.default_rng(3).normal(size=(ROWS, HIDDEN)).astype(np.float16)
WAYS = ("modules", "graphs", "fused")


def loaded(way: str, reuse_bytes: int) -> LanguageModel:
    device = open_device("CUDA")
    more: dict[str, object] = {}
    if way == "graphs":
        more = {"graphs": True}
    elif way == "fused":
        more = {"kernels": open_kernels(device)}
    given: dict[str, object] = {
        "folder": CHECKPOINT,
        "family": "llava",
        "dtype": "float32",
        "slots": SLOTS,
        "max_length": MAX_LENGTH,
        "device": device,
        "reuse_bytes": reuse_bytes,
    }
    return LanguageModel(Checkpoint(**given, **more))  # type: ignore[arg-type]


def requested(ids: tuple[int, ...]) -> Request:
    of_rows = np.where(np.array(ids) >= VOCABULARY, 77, 0).astype(np.uint64)
    return Request(ids=ids, table=IMAGE, row_ids=of_rows, max_tokens=20, end_ids=frozenset())


def answers(model: LanguageModel, *turns: tuple[int, ...]) -> list[tuple[list[int], int]]:
    """Return of each turn its tokens, and how many of its prompt's were known."""
    found = []
    with engine_starter(model)(prompt_rows=7) as engine:
        for ids in turns:
            sink = CollectingSink()
            engine.submit(requested(ids), sink)
            found.append((sink.wait(), sink.pieces[-1].reused))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_the_next_turn_is_answered_as_without(way: str) -> None:
    """After another prompt was in the same slot."""
    other = tuple(range(30, 100))
    computed = loaded(way, 0)
    (said, _), _ = answers(computed, PROMPT, other)
    second = (*PROMPT, *said, *range(40, 50))
    expected = [one for one, _ in answers(computed, PROMPT, other, second)]

    found = answers(loaded(way, 8 << 20), PROMPT, other, second)

    known = (len(PROMPT) + len(said) - 1) // BLOCK * BLOCK
    assert [one for one, _ in found] == expected
    assert [reused for _, reused in found] == [0, 0, known]
