"""A pass for which a GPU has no memory left is run again, smaller; a lost GPU ends the process.

Here on the processor, with a model that finds no memory as torch finds none.
"""

import logging
from collections.abc import Sequence

import pytest
import torch

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import EncoderDecoderModel
from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part, Passed
from mm_runtime.reference_engine.options import Ending
from mm_runtime.serving.errors import GpuLostError, MemoryFullError, for_client
from mm_runtime.serving.generate.request import Piece, Request, Sampling
from support.collecting_sink import CollectingSink, outcomes
from support.engines import AMPLE_OPTIONS, SLOTS, engine_starter, started
from support.families.texts import write
from support.families.words import END

Outcomes = list[list[int] | type[Exception]]
PROMPTS = [tuple(range(10 + 3 * at, 40 + 5 * at)) for at in range(3)]


class Narrow:
    """A language model on a device with room for so many rows of a prompt, and of answers.

    Like torch, it has computed part of a pass when it finds no room: keys and values are written.
    """

    repeatable = True
    launches = True
    follow = None

    def __init__(self, model: LanguageModel, *, rows: int = 1000, answers: int = 1000) -> None:
        self._model, self.rows, self._answers = model, rows, answers
        self.refused = 0
        self.released = 0
        self.vocabulary_size = model.vocabulary_size
        self.check, self.prompt_length = model.check, model.prompt_length
        self.begin, self.logits, self.move = model.begin, model.logits, model.move
        self.prepare = model.prepare
        self.recall, self.keep, self.prefixes = model.recall, model.keep, model.prefixes

    def cut(self, slot: int, start: int, rows: int) -> int:
        return self._model.cut(slot, start, rows)

    def run(
        self, tokens: Sequence[int], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        passed = self._model.run(tokens, positions, part)
        if len(tokens) > self._answers or (part is not None and len(part.rows) > self.rows):
            self.refused += 1
            raise torch.OutOfMemoryError("tried to allocate 2.00 GiB")
        return passed

    def release_unused(self) -> None:
        self.released += 1


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="mm_runtime")


def questions() -> list[Request]:
    return [
        Request(
            ids=ids,
            max_tokens=12,
            end_ids=frozenset(),
            sampling=Sampling(top_p=0.9, seed=3) if at == 1 else Sampling(),
        )
        for at, ids in enumerate(PROMPTS)
    ]


@pytest.fixture(scope="module")
def expected(language_model: LanguageModel) -> Outcomes:
    with engine_starter(language_model)() as engine:
        return outcomes(engine, questions())


def test_a_prompt_is_read_in_smaller_parts(
    language_model: LanguageModel, expected: Outcomes
) -> None:
    model = Narrow(language_model, rows=5)
    with engine_starter(model)() as engine:
        assert outcomes(engine, questions()) == expected
    assert model.refused == model.released > 0


def test_a_prompt_that_never_fits_fails_alone(
    language_model: LanguageModel, expected: Outcomes
) -> None:
    model = Narrow(language_model)
    late = [CollectingSink() for _ in questions()[1:]]

    def fill(_: Piece) -> None:
        # In the engine's thread, so that the first answer is not over by then.
        if len(first.pieces) == 1:
            model.rows = 0
            for request, sink in zip(questions()[1:], late, strict=True):
                engine.submit(request, sink)

    with engine_starter(model)() as engine:
        first = CollectingSink(fill)
        engine.submit(questions()[0], first)
        answered = first.wait()
        for sink in late:
            sink.wait_ended()
    assert answered == expected[0]
    assert [type(sink.error) for sink in late] == [torch.OutOfMemoryError] * 2


class Undivided(Narrow):
    """The same, where no row of a prompt is read without all others."""

    def cut(self, slot: int, start: int, rows: int) -> int:
        del slot, start, rows
        return max(map(len, PROMPTS))


def test_a_part_that_cannot_be_smaller_fails(language_model: LanguageModel) -> None:
    """An image without room fails its request: to try again with as many rows would not end."""
    model = Undivided(language_model, rows=5)
    with engine_starter(model)() as engine:
        assert outcomes(engine, questions()) == [torch.OutOfMemoryError] * 3
    assert model.refused == 3


def test_a_step_for_fewer_answers(language_model: LanguageModel, expected: Outcomes) -> None:
    with engine_starter(Narrow(language_model, answers=2))() as engine:
        found = outcomes(engine, questions())
    failed = [at for at, one in enumerate(found) if one == torch.OutOfMemoryError]
    assert len(failed) == 1
    assert [one for at, one in enumerate(found) if at not in failed] == [
        one for at, one in enumerate(expected) if at not in failed
    ]


def test_requests_that_pass_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder-decoder's pass is not repeated: the one without memory fails, others continue."""
    folder = write("t5", tmp_path_factory.mktemp("random") / "t5")
    model = EncoderDecoderModel(
        Checkpoint(folder=folder, dtype="float32", slots=SLOTS, family="t5", max_length=64)
    )
    requests = [
        Request(ids=(*range(5, 12 + at), END), decoder_ids=(0,), max_tokens=9, end_ids=frozenset())
        for at in range(3)
    ]
    with engine_starter(model)() as engine:
        wanted = outcomes(engine, requests)
    step = model.step

    def failing(state: object, ids: torch.Tensor, start: int) -> torch.Tensor:
        if start == 4 and state.encoded.last_hidden_state.shape[1] == 9:  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError
        return step(state, ids, start)

    monkeypatch.setattr(model, "step", failing)
    with engine_starter(model)() as engine:
        assert outcomes(engine, requests) == [wanted[0], torch.OutOfMemoryError, wanted[2]]


def test_a_lost_gpu_ends_the_process(language_model: LanguageModel) -> None:
    """Running and waiting requests can be sent again, new ones are refused, and it ends once."""
    ended: list[Exception] = []
    model = Narrow(language_model, answers=1)
    model.repeatable = False
    ending = Ending(lost=lambda error: isinstance(error, torch.OutOfMemoryError), end=ended.append)
    with started(Engine(model, AMPLE_OPTIONS), ending=ending) as engine:
        found = outcomes(engine, [*questions(), *questions(), *questions()])
        with pytest.raises(Exception, match="send the request again"):
            engine.submit(questions()[0], CollectingSink())
    assert set(found) == {GpuLostError}
    assert [type(one) for one in ended] == [torch.OutOfMemoryError]


def test_a_request_that_finds_the_gpu_lost(language_model: LanguageModel) -> None:
    ended: list[Exception] = []
    broken = Request(
        ids=PROMPTS[0],
        max_tokens=5,
        end_ids=frozenset({language_model.vocabulary_size}),
        sampling=Sampling(min_tokens=2),
    )
    ending = Ending(lost=lambda error: isinstance(error, ValueError), end=ended.append)
    with started(Engine(language_model, AMPLE_OPTIONS), ending=ending) as engine:
        assert set(outcomes(engine, [*questions(), broken])) == {GpuLostError}
    assert [type(one) for one in ended] == [ValueError]


def test_clients_can_send_again() -> None:
    """What torch says of a full GPU is no server error: it is worth another try."""
    assert isinstance(for_client(torch.OutOfMemoryError("2 GiB")), MemoryFullError)
    other = ValueError("no")
    assert for_client(other) is other
