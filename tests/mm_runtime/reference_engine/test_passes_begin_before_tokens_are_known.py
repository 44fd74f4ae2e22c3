"""Where a pass takes tokens of its device, it is begun before the processor has seen them.

Here on the processor, with fused weights and a model that says of itself that it launches passes.
Answers are those of one pass after the other, whatever a token ends meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Follow, Part, Passed
from mm_runtime.serving.generate.request import Piece, Request, Sampling, Wanted
from mm_runtime.serving.staging import Fetching
from support.cases import cases
from support.collecting_sink import CollectingSink
from support.engines import SLOTS, changed, started, tiny_checkpoint
from support.plain_kernels import PlainKernels

PROMPTS = [tuple(range(10 + at, 25 + 7 * at)) for at in range(SLOTS + 5)]
TOKENS = 20
ALONE = Request(ids=PROMPTS[0], max_tokens=TOKENS, end_ids=frozenset())


class Overlapping(LanguageModel):
    """The tiny model with fused weights, as if a GPU computed it; notes its passes."""

    launches = True

    def __init__(self) -> None:
        super().__init__(tiny_checkpoint(kernels=PlainKernels()))
        self.overlaps = True
        self.forget()

    def forget(self) -> None:
        self.ahead: list[tuple[int, int]] = []
        """Tokens of each pass that was begun ahead, and rows of a prompt in it."""

        self.waited: list[tuple[int, int]] = []
        """The same of the other passes."""

        self.before_a_pass: Callable[[], None] = lambda: None
        self.begun = 0
        """Requests that were given a slot."""

    def begin(self, slot: int, request: Request) -> torch.Tensor:
        self.begun += 1
        return super().begin(slot, request)

    @property
    def follow(self) -> Follow | None:
        begin = super().follow
        assert begin is not None

        def noted(tokens: torch.Tensor, positions: Sequence[int], part: Part | None) -> Passed:
            self.ahead.append((len(tokens), _rows(part)))
            self.before_a_pass()
            return begin(tokens, positions, part)

        return noted if self.overlaps else None

    def run(
        self, tokens: Sequence[int], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        self.waited.append((len(tokens), _rows(part)))
        return super().run(tokens, positions, part)


def _rows(part: Part | None) -> int:
    return 0 if part is None else len(part.rows)


@pytest.fixture(scope="module")
def loaded() -> Overlapping:
    return Overlapping()


@pytest.fixture
def model(loaded: Overlapping) -> Overlapping:
    loaded.overlaps = True
    loaded.forget()
    return loaded


def answered(
    model: Overlapping, requests: Sequence[Request], sinks: Sequence[CollectingSink] = ()
) -> list[CollectingSink]:
    engine = Engine(model, changed(prompt_rows=3))
    sinks = sinks or [CollectingSink() for _ in requests]
    for one, sink in zip(requests, sinks, strict=True):
        engine.submit(one, sink)
    with started(engine):
        for sink in sinks:
            sink.wait_ended()
    return list(sinks)


def said(sinks: Sequence[CollectingSink]) -> list[list[Piece]]:
    return [sink.pieces for sink in sinks]


def in_turn(model: Overlapping, requests: Sequence[Request]) -> list[CollectingSink]:
    model.overlaps = False
    sinks = answered(model, requests)
    model.forget()
    model.overlaps = True
    return sinks


def as_in_turn(model: Overlapping, requests: Sequence[Request]) -> list[CollectingSink]:
    wanted = in_turn(model, requests)
    found = answered(model, requests)
    assert said(found) == said(wanted)
    return found


def test_an_answer_alone_waits_for_its_first_pass_only(model: Overlapping) -> None:
    """No pass is computed for nothing: the last token's length is known before."""
    (sink,) = answered(model, [ALONE])

    assert len(sink.ids) == TOKENS
    assert model.waited == [(0, len(ALONE.ids))]
    assert model.ahead == [(1, 0)] * (TOKENS - 1)


def test_answers_are_those_of_pass_after_pass(model: Overlapping) -> None:
    requests = [
        replace(ALONE, ids=ids, max_tokens=TOKENS + at % 3) for at, ids in enumerate(PROMPTS)
    ]
    found = as_in_turn(model, requests)
    assert [len(sink.ids) for sink in found] == [one.max_tokens for one in requests]
    assert any(rows for _, rows in model.ahead), "parts of prompts are begun ahead, too"
    assert any(tokens == SLOTS for tokens, _ in model.ahead)


@pytest.mark.parametrize("at", [0, 1, 7])
def test_a_token_that_ends_an_answer_ends_no_other(model: Overlapping, at: int) -> None:
    requests = [replace(ALONE, ids=ids) for ids in PROMPTS[:SLOTS]]
    ending = in_turn(model, requests)[1].ids[at]
    requests[1] = replace(requests[1], end_ids=frozenset({ending}))
    found = as_in_turn(model, requests)
    assert len(found[1].ids) <= at
    assert all(len(sink.ids) == TOKENS for sink in [found[0], *found[2:]])


def test_a_stop_word_ends_an_answer_and_its_slot_is_used_again(model: Overlapping) -> None:
    requests = [replace(ALONE, ids=ids) for ids in PROMPTS[: SLOTS + 2]]
    word = tuple(in_turn(model, requests)[2].ids[4:6])
    requests[2] = replace(requests[2], stop=(word,))
    as_in_turn(model, requests)


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling": Sampling(temperature=0.9, top_k=0, top_p=0.9, seed=7)},
        {"sampling": Sampling(top_k=1, repetition_penalty=1.4, frequency_penalty=0.5)},
        {"wanted": Wanted(log_probs=True, likeliest=3)},
    ],
    ids=["drawn", "penalised", "log-probabilities"],
)
def test_rules_follow_the_tokens_before(model: Overlapping, changes: dict[str, object]) -> None:
    """What is chosen from a pass that was begun ahead is chosen when the token before is known."""
    requests = [replace(ALONE, ids=ids) for ids in PROMPTS[:3]]
    requests[1] = Request(ids=PROMPTS[1], max_tokens=TOKENS, end_ids=frozenset(), **changes)  # type: ignore[arg-type]
    wanted = in_turn(model, requests)

    found = answered(model, requests)

    assert model.ahead
    for one, other in zip(found, wanted, strict=True):
        assert one.ids == other.ids
        assert [p.log_probs for p in one.pieces] == [p.log_probs for p in other.pieces]
        assert [p.likeliest for p in one.pieces] == [p.likeliest for p in other.pieces]


def test_a_request_that_waits_begins_ahead(model: Overlapping) -> None:
    """Its first part is in the pass that follows the one that computes when it comes."""
    engine = Engine(model, changed(prompt_rows=1024))
    sinks = [CollectingSink(), CollectingSink()]
    engine.submit(ALONE, sinks[0])
    for _ in range(3):
        engine.turn()
    assert model.ahead == [(1, 0)] * 3
    engine.submit(replace(ALONE, ids=PROMPTS[1]), sinks[1])
    model.forget()

    engine.turn()  # looks at the pass that was begun before the request came
    assert model.ahead == [(1, len(PROMPTS[1]))]
    engine.turn()
    assert model.ahead[1:] == [(2, 0)]
    assert not model.waited


def test_single_tokens_beside_answers(model: Overlapping) -> None:
    """A prompt whose answer is one token frees its slot while the next prompt is in a pass."""
    running = [replace(ALONE, ids=ids, max_tokens=60) for ids in PROMPTS[:2]]
    single = [replace(ALONE, ids=ids, max_tokens=1) for ids in PROMPTS[2:]]
    requests = [*running, *single]
    as_in_turn(model, requests)
    parts = [rows for _, rows in model.waited if rows]
    assert len(parts) == 1, "the first prompt alone is read by a pass that nothing was before"


@pytest.mark.parametrize("at", [0, 3])
def test_an_answer_ends_while_the_next_prompt_is_in_a_pass(model: Overlapping, at: int) -> None:
    """Its slot is taken by the last answer, whose slot the prompt gets."""
    requests = [replace(ALONE, ids=ids, max_tokens=40) for ids in PROMPTS]
    ending = in_turn(model, requests)[0].ids[at + 8]
    requests[0] = replace(requests[0], end_ids=frozenset({ending}))
    as_in_turn(model, requests)


@cases(
    "count refusing with_prompt",
    {
        # Of a pass with a prompt a smaller part could be read instead.
        "answers": (SLOTS, lambda model: model.ahead[-2:] == [(SLOTS, 0)] * 2, False),
        "the next prompt": (len(PROMPTS), lambda model: model.begun > SLOTS, True),
    },
)
def test_no_memory_for_a_pass_begun_ahead(
    model: Overlapping, count: int, refusing: Callable[[Overlapping], bool], *, with_prompt: bool
) -> None:
    """It is begun again when its tokens are known; each request keeps its slot."""
    requests = [replace(ALONE, ids=ids) for ids in PROMPTS[:count]]
    wanted = in_turn(model, requests)
    refused: list[tuple[int, int]] = []

    def refuse() -> None:
        if refusing(model) and not refused:  # beside this very pass
            refused.append(model.ahead[-1])
            raise torch.OutOfMemoryError("tried to allocate 2.00 GiB")

    model.before_a_pass = refuse
    found = answered(model, requests)

    assert [rows > 0 for _, rows in refused] == [with_prompt]
    assert said(found) == said(wanted)


def test_no_memory_beside_a_prompt_that_was_begun(
    model: Overlapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass before it fails, and is run again with a smaller part: each keeps its slot."""
    requests = [replace(ALONE, ids=ids) for ids in PROMPTS]
    wanted = in_turn(model, requests)
    failed: list[int] = []
    begin = Fetching.begin

    def failing(self: Fetching, first: int, count: int) -> Callable[[], list[int]]:
        fetched, before = begin(self, first, count), model.begun

        def later() -> list[int]:
            if model.begun > max(before, SLOTS) and not failed:
                failed.append(model.begun)
                raise torch.OutOfMemoryError("tried to allocate 2.00 GiB")
            return fetched()

        return later

    monkeypatch.setattr(Fetching, "begin", failing)
    found = answered(model, requests)

    assert failed
    assert said(found) == said(wanted)


def test_no_memory_for_answers_beside_a_prompt_that_was_begun(
    model: Overlapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer fails for want of memory; the request that has its slot already is read first."""
    requests = [replace(ALONE, ids=ids, max_tokens=60) for ids in PROMPTS[:4]]
    wanted = in_turn(model, requests)
    engine, answering = Engine(model, changed(prompt_rows=1024)), list[int]()
    sinks = [CollectingSink(lambda _, at=at: answering.append(at)) for at in range(len(requests))]
    for one, sink in zip(requests[:2], sinks[:2], strict=True):
        engine.submit(one, sink)
    for _ in range(5):
        engine.turn()

    def failing(*_: object) -> Callable[[], list[int]]:
        def later() -> list[int]:
            raise torch.OutOfMemoryError("tried to allocate 2.00 GiB")

        return later

    for one, sink in zip(requests[2:], sinks[2:], strict=True):
        engine.submit(one, sink)
    with monkeypatch.context() as patch:
        patch.setattr(Fetching, "begin", failing)
        engine.turn()
    while engine.counts().running:
        engine.turn()

    failed = [sink for sink in sinks if sink.error is not None]
    assert len(failed) == 1
    assert failed[0] in sinks[:2]
    assert answering.index(2) < answering.index(3)
    assert all(
        sink.pieces == one.pieces
        for sink, one in zip(sinks, wanted, strict=True)
        if sink not in failed
    )


def test_logits_that_a_request_reads_are_no_later_ones(model: Overlapping) -> None:
    """Each pass writes them where those of the one before lie; its tokens follow from them."""
    requests = [replace(ALONE, ids=ids) for ids in PROMPTS[:2]]
    requests[1] = replace(requests[1], wanted=Wanted(generation_logits=True))

    sink = answered(model, requests)[1]

    logits = [piece.generation_logits for piece in sink.pieces]
    assert all(one is not None for one in logits)
    assert [one.argmax() for one in logits if one is not None] == sink.ids


def test_a_client_that_leaves_frees_its_slot(model: Overlapping) -> None:
    requests = [replace(ALONE, ids=ids, max_tokens=60) for ids in PROMPTS[:SLOTS]]
    wanted = said(in_turn(model, requests))
    sinks = [CollectingSink() for _ in requests]
    leaving = sinks[1]

    def leave(_: Piece) -> None:
        leaving.walked_away = len(sinks[0].ids) > 30

    sinks[0] = CollectingSink(leave)
    found = answered(model, requests, sinks)

    assert leaving.was_cancelled
    stayed = [at for at in range(SLOTS) if at != 1]
    assert [found[at].ids for at in stayed] == [
        [token for piece in wanted[at] for token in piece.ids] for at in stayed
    ]
