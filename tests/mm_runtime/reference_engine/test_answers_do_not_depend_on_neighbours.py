"""Requests join, leave, are refused or break: the others get the answers that they get alone."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import EncoderDecoderModel
from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.prefix_cache import BLOCK
from mm_runtime.serving.errors import QueueFullError, RequestError
from mm_runtime.serving.generate.request import Piece, Request, Sampling, Wanted
from support.collecting_sink import CollectingSink
from support.engines import SLOTS, changed, tiny_checkpoint
from support.families.texts import write
from support.families.words import END, SIZE
from support.tiny_llava import END_ID, VOCABULARY

OPTIONS = changed(
    max_queue_size=8, max_num_tokens=24, prompt_rows=6, max_input_len=48, max_seq_len=64
)
"""Prompts are read in several parts, clients wait, and are checked for whether they still do."""

MOST_TURNS = 20_000
"""For those that wait at the end; an engine that needs more hangs."""

MakeRequest = Callable[[], Request]
"""Returns equal requests that share no array, as those of two clients."""


@dataclass(frozen=True)
class Questions:
    """What clients of a model query."""

    good: Sequence[MakeRequest]
    refused: Sequence[MakeRequest]
    """They are never queued."""

    broken: Sequence[MakeRequest]
    """They fail at their first token or a later one."""


class Client(CollectingSink):
    """A sink that knows what it should get."""

    def __init__(self, expected: Sequence[Piece] | None) -> None:
        super().__init__()
        self.expected = expected

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def check(self) -> None:
        if self.expected is None:
            assert self.error is not None or self.was_cancelled or not self.ended
            return
        assert self.error is None, f"failed beside others: {self.error!r}"
        answer = [token for piece in self.expected for token in piece.ids]
        assert self.ids == answer[: len(self.ids)]
        if self.ended and not self.was_cancelled:
            assert [_seen(piece) for piece in self.pieces] == [
                _seen(piece) for piece in self.expected
            ]
        assert self.walked_away or not self.was_cancelled


class Deaf(Client):
    """A client whose connection breaks at its second piece."""

    def send(self, piece: Piece) -> None:
        if self.pieces:
            raise OSError("the connection is broken")
        super().send(piece)


def _seen(piece: Piece) -> object:
    return piece.ids, piece.finish


def answer_alone(model: SlotModel, request: Request) -> tuple[Piece, ...]:
    engine, sink = Engine(model, OPTIONS), Client(None)
    engine.submit(request, sink)
    while not sink.ended:
        engine.turn()
    sink.wait()
    return tuple(sink.pieces)


def neighbours(  # noqa: C901 (rules are methods of a class of this model)
    model: SlotModel,
    questions: Questions,
    stepped: Callable[[], None],
    forgetful: SlotModel | None = None,
) -> type[RuleBasedStateMachine]:
    """Return the state machine; `forgetful` is `model`, keeping nothing of earlier requests."""
    alone = [answer_alone(forgetful or model, make_request()) for make_request in questions.good]
    any_good = st.sampled_from(range(len(questions.good)))

    class Neighbours(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self._engine = Engine(model, OPTIONS)
            self._clients: list[Client] = []

        def _join(self, request: Request, client: Client) -> None:
            with suppress(QueueFullError):
                self._engine.submit(request, client)
                self._clients.append(client)

        @rule(which=any_good, clients=st.integers(1, 6), leaver=st.integers(0, 9))
        def join(self, which: int, clients: int, leaver: int) -> None:
            for number in range(clients):
                client = Client(alone[which])
                client.walked_away = number == leaver
                self._join(questions.good[which](), client)

        @rule(several=st.lists(any_good, min_size=2, max_size=6), leaver=st.integers(0, 9))
        def meet(self, several: list[int], leaver: int) -> None:
            for number, which in enumerate(several):
                client = Client(alone[which])
                client.walked_away = number == leaver
                self._join(questions.good[which](), client)

        @rule(which=st.integers(0, 99))
        def leave(self, which: int) -> None:
            if self._clients:
                self._clients[which % len(self._clients)].walked_away = True

        @rule(make_request=st.sampled_from(questions.refused))
        def be_refused(self, make_request: MakeRequest) -> None:
            with pytest.raises(RequestError):
                self._engine.submit(make_request(), Client(None))

        @rule(make_request=st.sampled_from(questions.broken))
        def break_down(self, make_request: MakeRequest) -> None:
            self._join(make_request(), Client(None))

        @rule(which=any_good)
        def lose_the_connection(self, which: int) -> None:
            # An entire answer in one piece would arrive.
            if len(alone[which]) > 1:
                self._join(questions.good[which](), Deaf(None))

        @rule(turns=st.integers(1, 12))
        def take_turns(self, turns: int) -> None:
            for _ in range(turns):
                self._engine.turn()

        @invariant()
        def answers_are_those_that_each_gets_alone(self) -> None:
            stepped()
            for client in self._clients:
                client.check()
            self._clients = [client for client in self._clients if not client.ended]
            assert self._engine.counts().running <= SLOTS

        def teardown(self) -> None:
            turns = 0
            while (counts := self._engine.counts()).running or counts.waiting:
                self._engine.turn()
                turns += 1
                assert turns < MOST_TURNS, f"{counts} after {turns} turns"
            for client in self._clients:
                assert client.ended, "neither answered nor failed"
                client.check()

    return Neighbours


def copied(request: Request) -> MakeRequest:
    def make_request() -> Request:
        own = {name: None if it is None else it.copy() for name, it in arrays.items()}
        return replace(request, **own)  # type: ignore[arg-type]

    arrays = {"table": request.table, "bias": request.bias}
    return make_request


HIDDEN = 128
STEPS = 100
"""Of one engine; then the next one begins."""

FOLLOWED = 0.5
"""Of the steps: Hypothesis ends an engine earlier now and then, and there are as few as four."""

UNDECIDED = 1e-3
"""Two tokens whose logits are nearer than this could change places by rounding in other company."""

BLOCKS_BYTES = 135_000
"""Of what is kept: four blocks, and fewer than the chats have."""

SAMPLINGS = (
    Sampling(),
    Sampling(),
    Sampling(top_k=8, seed=5),
    Sampling(top_p=0.9, temperature=1.5, seed=6),
    Sampling(repetition_penalty=1.3),
    Sampling(min_tokens=4),
    Sampling(presence_penalty=0.5, frequency_penalty=0.25, top_k=4, seed=7),
)


def _llava_questions() -> Questions:
    rng = np.random.default_rng(20)
    good = []
    for number in range(14):
        ids = (2, *rng.integers(5, VOCABULARY, int(rng.integers(1, 40))).tolist())
        table = rng.normal(size=(4, HIDDEN)).astype(np.float16) if number % 2 else None
        pictured = range(VOCABULARY, VOCABULARY + (0 if table is None else len(table)))
        good.append(
            Request(
                ids=(*ids[:8], *pictured, *ids[8:42]),
                table=table,
                max_tokens=int(rng.integers(1, 14)),
                end_ids=frozenset({END_ID}),
                stop=((11, 12),),
                bad=((20,), (21, 22)) if number % 3 == 0 else (),
                bias=rng.normal(size=VOCABULARY).astype(np.float32) if number % 5 == 4 else None,
                sampling=SAMPLINGS[number % len(SAMPLINGS)],
            )
        )
    simple = Request(ids=(2, 10, 11), max_tokens=6, end_ids=frozenset())
    nothing = np.full(VOCABULARY, -np.inf, np.float32)
    return Questions(
        good=[copied(request) for request in good],
        refused=[
            lambda: Request(ids=(), max_tokens=1, end_ids=frozenset()),
            lambda: Request(ids=(5,) * 49, max_tokens=1, end_ids=frozenset()),
            lambda: Request(ids=(VOCABULARY,), max_tokens=1, end_ids=frozenset()),
            lambda: Request(ids=(2,), max_tokens=0, end_ids=frozenset()),
        ],
        broken=[
            lambda: Request(
                ids=(2, 9),
                max_tokens=5,
                end_ids=frozenset({VOCABULARY + 3}),
                sampling=Sampling(min_tokens=3),
            ),
            copied(
                Request(
                    **{**vars(simple), "bias": nothing, "sampling": Sampling(top_k=3, seed=1)}  # type: ignore[arg-type]
                )
            ),
        ],
    )


def _chats(model: LanguageModel) -> Questions:
    rng = np.random.default_rng(22)
    good = []
    for number in range(5):
        ids = (2, *rng.integers(5, VOCABULARY, 7).tolist())
        if number % 2:
            ids += tuple(range(VOCABULARY, VOCABULARY + 4))
        # The answer completes a block.
        length = int(rng.choice((14, 30)))
        ids += tuple(rng.integers(5, VOCABULARY, length - len(ids)).tolist())
        turn = Request(
            ids=ids,
            table=rng.normal(size=(4, HIDDEN)).astype(np.float16),
            row_ids=np.where(np.array(ids) >= VOCABULARY, number, 0).astype(np.uint64),
            salt="ann" if number == 3 else "",
            max_tokens=int(rng.integers(4, 10)),
            end_ids=frozenset(),
            sampling=SAMPLINGS[number % 3],
        )
        said = [token for piece in answer_alone(model, turn) for token in piece.ids]
        ids += (*said, *rng.integers(5, VOCABULARY, 4).tolist())
        marks = np.where(np.array(ids) >= VOCABULARY, number, 0).astype(np.uint64)
        good += [turn, replace(turn, ids=ids, row_ids=marks)]
    llava = _llava_questions()
    made = [copied(request) for request in good]
    return Questions(good=made, refused=llava.refused, broken=llava.broken)


def _t5_questions(start: int) -> Questions:
    rng = np.random.default_rng(21)
    good = [
        Request(
            ids=(*rng.integers(4, SIZE, int(rng.integers(2, 30))).tolist(), END),
            decoder_ids=(start,),
            max_tokens=int(rng.integers(1, 10)),
            end_ids=frozenset({END}),
            sampling=SAMPLINGS[number % 3],
        )
        for number in range(10)
    ]
    return Questions(
        good=[copied(request) for request in good],
        refused=[lambda: Request(ids=(4,), max_tokens=1, end_ids=frozenset())],
        broken=[
            lambda: Request(
                ids=(4, END),
                decoder_ids=(start,),
                max_tokens=5,
                end_ids=frozenset({SIZE}),
                sampling=Sampling(min_tokens=3),
            )
        ],
    )


@pytest.fixture(autouse=True)
def quick_and_quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Run on one thread, which is three times faster for models this small; log no broken rows."""
    caplog.set_level(logging.CRITICAL, logger="mm_runtime")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> EncoderDecoderModel:
    folder = write("t5", tmp_path_factory.mktemp("random") / "t5")
    return EncoderDecoderModel(
        Checkpoint(folder=folder, dtype="float32", slots=SLOTS, family="t5", max_length=64)
    )


def _follow(
    model: SlotModel, questions: Questions, engines: int, forgetful: SlotModel | None = None
) -> int:
    followed = 0

    def count() -> None:
        nonlocal followed
        followed += 1

    # Not made smaller when it fails: that would take longer than a test may.
    phases = (Phase.generate,)
    run_state_machine_as_test(
        neighbours(model, questions, count, forgetful),
        settings=settings(max_examples=engines, stateful_step_count=STEPS, phases=phases),
    )
    return followed


def _assert_decided(model: SlotModel, questions: Questions) -> None:
    """Make sure that no answer hangs on rounding: it would change with the company."""
    for query in questions.good:
        request = query()
        if request.sampling != Sampling() or request.bad or request.bias is not None:
            continue
        wanted = Request(**{**vars(request), "wanted": Wanted(generation_logits=True)})
        for piece in answer_alone(model, wanted):
            if piece.generation_logits is not None:
                best = np.sort(piece.generation_logits, axis=-1)
                assert (best[:, -1] - best[:, -2]).min() > UNDECIDED


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param(12, id="12 engines"),
        pytest.param(1050, marks=[pytest.mark.slow, pytest.mark.timeout(2400)], id="1050 engines"),
    ],
)
def test_requests_that_share_a_pass(language_model: LanguageModel, engines: int) -> None:
    questions = _llava_questions()
    _assert_decided(language_model, questions)
    assert _follow(language_model, questions, engines) >= engines * STEPS * FOLLOWED


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param(5, id="5 engines"),
        pytest.param(400, marks=[pytest.mark.slow, pytest.mark.timeout(2400)], id="400 engines"),
    ],
)
def test_requests_that_continue_chats(language_model: LanguageModel, engines: int) -> None:
    questions = _chats(language_model)
    _assert_decided(language_model, questions)
    checkpoint = tiny_checkpoint(reuse_bytes=BLOCKS_BYTES)
    model = LanguageModel(checkpoint)
    assert _follow(model, questions, engines, language_model) >= engines * STEPS * FOLLOWED
    counts = model.prefixes
    assert counts is not None
    assert counts.reused > BLOCK * engines
    assert counts.evictions > engines


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param(4, id="4 engines"),
        pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(1200)], id="50 engines"),
    ],
)
def test_requests_that_share_a_step(t5: EncoderDecoderModel, engines: int) -> None:
    questions = _t5_questions(start=0)
    _assert_decided(t5, questions)
    assert _follow(t5, questions, engines) >= engines * STEPS * FOLLOWED
