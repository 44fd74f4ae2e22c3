"""Requests join, leave, are refused or break: the others get the answers that they get alone."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import EncoderDecoderModel
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.prefix_keys import BLOCK
from mm_runtime.serving.generate.request import BeamOptions, Request, Sampling, Wanted
from support.engines import MAX_LENGTH, SLOTS
from support.families.texts import write
from support.families.words import END, SIZE
from support.neighbours import Questions, answer_alone, copied, neighbours
from support.tiny_llava import CHECKPOINT, END_ID, VOCABULARY

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
    """Return questions with and without images, of every way to choose tokens."""
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
    """Return first turns of chats, second ones behind their answers, and what breaks between."""
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
    """Return texts with one answer and with several beams."""
    rng = np.random.default_rng(21)
    good = []
    for number in range(10):
        beams = BeamOptions(2 + number % 2) if number % 3 == 2 else None
        sampling = Sampling() if beams else SAMPLINGS[number % 3]
        good.append(
            Request(
                ids=(*rng.integers(4, SIZE, int(rng.integers(2, 30))).tolist(), END),
                decoder_ids=(start,),
                max_tokens=int(rng.integers(1, 10)),
                end_ids=frozenset({END}),
                beams=beams,
                sampling=sampling,
            )
        )
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
    """A random T5, whose requests have caches of their own and may search with beams."""
    folder = write("t5", tmp_path_factory.mktemp("random") / "t5")
    return EncoderDecoderModel(
        Checkpoint(folder=folder, dtype="float32", slots=SLOTS, family="t5", max_length=64)
    )


def _follow(
    model: SlotModel, questions: Questions, engines: int, forgetful: SlotModel | None = None
) -> int:
    """Let clients come and go at so many engines; return how many rules were followed."""
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
        if (
            request.sampling != Sampling()
            or request.beams
            or request.bad
            or request.bias is not None
        ):
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
    """Prompts are known in part from requests that ended, left or run, and some were forgotten."""
    questions = _chats(language_model)
    _assert_decided(language_model, questions)
    checkpoint = Checkpoint(
        folder=CHECKPOINT,
        family="llava",
        dtype="float32",
        slots=SLOTS,
        max_length=MAX_LENGTH,
        reuse_bytes=BLOCKS_BYTES,
    )
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
    """An encoder-decoder, whose requests pass one after the other, some with several beams."""
    questions = _t5_questions(start=0)
    _assert_decided(t5, questions)
    assert _follow(t5, questions, engines) >= engines * STEPS * FOLLOWED
