"""Where a pass is one launch of a GPU, what needs no result of it is done while it computes.

Here on the processor, with a model that says so of itself.
"""

from collections.abc import Sequence

import pytest
import torch

from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.serving.generate.request import Piece, Request, Rows, Sampling
from support.collecting_sink import CollectingSink, submitted
from support.engines import AMPLE_OPTIONS, SLOTS, changed, started, tiny_checkpoint
from support.tiny_llava import VOCABULARY

PROMPTS = [tuple(range(10 + 3 * at, 40 + 5 * at)) for at in range(SLOTS + 2)]
TOKENS = 6
HIDDEN = 128
"""Values of a row of the tiny model's prompt table."""


class Launching(LanguageModel):
    """The tiny model, as if its passes were launches; counts the prompts that it makes."""

    launches = True

    def __init__(self) -> None:
        super().__init__(tiny_checkpoint())
        self.embedded = 0

    def embed(self, ids: Sequence[int], table: Rows | None) -> torch.Tensor:
        self.embedded += 1
        return super().embed(ids, table)


@pytest.fixture(scope="module")
def launching() -> Launching:
    return Launching()


def request(ids: tuple[int, ...], tokens: int = TOKENS) -> Request:
    return Request(ids=ids, max_tokens=tokens, end_ids=frozenset(), sampling=Sampling(seed=1))


def of_image(rows: int) -> Request:
    table = torch.randn((rows, HIDDEN), generator=torch.Generator().manual_seed(rows)).numpy()
    ids = (5, *range(VOCABULARY, VOCABULARY + rows), 7)
    return Request(
        ids=ids, table=table, max_tokens=TOKENS, end_ids=frozenset(), sampling=Sampling(seed=1)
    )


def answered(model: LanguageModel, requests: Sequence[Request]) -> list[list[int]]:
    engine = Engine(model, changed(prompt_rows=8))
    sinks = submitted(engine, requests)
    with started(engine):
        return [sink.wait() for sink in sinks]


def test_answers_are_the_same(launching: Launching, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [*map(request, PROMPTS), of_image(9), of_image(20)]
    held = answered(launching, requests)
    monkeypatch.setattr(Launching, "launches", False)
    assert held == answered(launching, requests)
    assert all(len(answer) == TOKENS for answer in held)


def test_each_prompt_is_made_once(launching: Launching) -> None:
    launching.embedded = 0
    requests = [*map(request, PROMPTS), of_image(9)]
    answered(launching, requests)
    assert launching.embedded == len(requests)


def test_pieces_of_a_step_are_given_out_beside_the_next(launching: Launching) -> None:
    engine = Engine(launching, AMPLE_OPTIONS)
    sinks = [CollectingSink(), CollectingSink()]
    for ids, sink in zip(PROMPTS, sinks, strict=False):
        engine.submit(request(ids), sink)
    engine.turn()  # the first prompt, alone: its token is given out at once
    assert [len(sink.ids) for sink in sinks] == [1, 0]
    seen = []
    for _ in range(TOKENS):
        engine.turn()
        seen.append(tuple(len(sink.ids) for sink in sinks))
    # The second answer is alone in the last pass.
    assert seen == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 6)]


@pytest.mark.parametrize("broken_at", [0, TOKENS - 1], ids=["first", "last"])
def test_a_sink_that_fails_ends_its_own_request(launching: Launching, broken_at: int) -> None:
    count = 0

    def break_it(_: Piece) -> None:
        nonlocal count
        count += 1
        if count == broken_at + 1:
            raise ConnectionError("gone")

    engine = Engine(launching, AMPLE_OPTIONS)
    broken, well = CollectingSink(break_it), [CollectingSink() for _ in range(2)]
    for ids, sink in zip(PROMPTS, [well[0], broken, well[1]], strict=False):
        engine.submit(request(ids), sink)
    with started(engine):
        with pytest.raises(ConnectionError):
            broken.wait()
        assert [len(sink.wait()) for sink in well] == [TOKENS] * 2


def test_a_cancelled_request_has_what_was_chosen(launching: Launching) -> None:
    engine = Engine(launching, AMPLE_OPTIONS)
    leaving, staying = CollectingSink(), CollectingSink()
    engine.submit(request(PROMPTS[0]), leaving)
    engine.submit(request(PROMPTS[1]), staying)
    for _ in range(3):
        engine.turn()
    given = len(leaving.ids)
    leaving.walked_away = True
    engine.turn()
    assert leaving.was_cancelled
    assert len(leaving.ids) == given + 1
    with started(engine):
        assert len(staying.wait()) == TOKENS


def test_a_prepared_request_that_is_cancelled_is_not_kept(launching: Launching) -> None:
    alone = answered(launching, [request(PROMPTS[5])])
    engine = Engine(launching, changed(max_batch_size=2))
    first, leaving, following = CollectingSink(), CollectingSink(), CollectingSink()
    engine.submit(request(PROMPTS[0], tokens=40), first)
    engine.turn()
    engine.submit(request(PROMPTS[4]), leaving)
    leaving.walked_away = True
    for _ in range(12):  # those that wait are looked at each tenth time
        engine.turn()
    engine.submit(request(PROMPTS[5]), following)
    with started(engine):
        assert following.wait() == alone[0]
        first.wait()
