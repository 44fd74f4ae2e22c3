"""Decoding steps of fixed shapes, as a GPU captures them, give the answers of any other step."""

import pytest
import torch

from mm_api.captured_passes import doubled
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.decode_graphs import DecodeGraphs
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.serving.device import CPU
from mm_runtime.serving.generate.request import Request
from support.collecting_sink import CollectingSink
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.tiny_llava import CHECKPOINT


@pytest.fixture(scope="module")
def fixed() -> LanguageModel:
    """The tiny model with steps of fixed shapes."""
    return LanguageModel(
        Checkpoint(
            folder=CHECKPOINT,
            family="llava",
            dtype="float32",
            slots=SLOTS,
            max_length=MAX_LENGTH,
            graphs=True,
        )
    )


def answers(model: LanguageModel, requests: list[Request]) -> list[list[int]]:
    """Return the answers to requests that are in flight together."""
    sinks = [CollectingSink() for _ in requests]
    with engine_starter(model)(prompt_rows=3) as engine:
        for request, sink in zip(requests, sinks, strict=True):
            engine.submit(request, sink)
        return [sink.wait() for sink in sinks]


def requests(count: int, tokens: int = 20) -> list[Request]:
    """Return requests of different lengths."""
    return [
        Request(ids=tuple(range(10 + at, 25 + 7 * at)), max_tokens=tokens + at, end_ids=frozenset())
        for at in range(count)
    ]


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_answers_are_those_of_other_steps(
    fixed: LanguageModel, language_model: LanguageModel, count: int
) -> None:
    """Alone, in steps with unused rows, in full ones, and with requests that wait for a slot."""
    assert answers(fixed, requests(count)) == answers(language_model, requests(count))


def test_answers_longer_than_a_span(fixed: LanguageModel, language_model: LanguageModel) -> None:
    """Steps that read more positions take over where shorter ones end."""
    long = requests(1, tokens=300)

    assert answers(fixed, long) == answers(language_model, long)


def test_unused_rows_touch_no_slot() -> None:
    """They write into the spare slot, with position 0."""
    seen: list[list[list[int]]] = []

    def run(
        tokens: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, span: int
    ) -> torch.Tensor:
        seen.append([tokens.tolist(), positions.tolist(), slots.tolist(), [span]])
        return tokens

    steps = DecodeGraphs(run, slots=6, max_length=600, device=CPU)
    states = steps.run([11, 12, 13], [4, 300, 9])

    assert seen == [[[11, 12, 13, 0], [4, 300, 9, 0], [0, 1, 2, 6], [512]]]
    assert states.tolist() == [11, 12, 13]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(1, 1, [1]), (1, 6, [1, 2, 4, 6]), (256, 1024, [256, 512, 1024]), (256, 100, [100])],
)
def test_sizes(first: int, last: int, expected: list[int]) -> None:
    """Doubled up to the largest, which is always there."""
    assert doubled(first, last) == expected
