"""What goes wrong with one request of a step ends that request; the answers beside it continue."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mm_runtime.errors import WeightsUnusableError
from mm_runtime.reference_engine.choosing import NOT_FINITE, choose_all, likeliest_finite
from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.sampling import Rules
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.features import Features
from mm_runtime.serving.errors import NotFiniteError
from mm_runtime.serving.generate.request import Piece, Request, Sampling, Wanted
from mm_runtime.serving.tensors import Tensors
from support.cases import cases
from support.collecting_sink import CollectingSink, answers_of, outcomes
from support.engines import AMPLE_OPTIONS, MAX_LENGTH, SLOTS, StartEngine, engine_starter, started
from support.families import texts
from support.families.pipeline import build
from support.fused_models import fused_model
from support.tiny_llava import VOCABULARY

PROMPT = (2, 10, 11, 12)
HIDDEN = 128
TOKENS = 60


def _request(tokens: int = TOKENS, **changes: object) -> Request:
    return Request(ids=PROMPT, max_tokens=tokens, end_ids=frozenset(), **changes)  # type: ignore[arg-type]


def _about_an_image() -> Request:
    table = np.ones((4, HIDDEN), np.float16)
    return Request(ids=(2, VOCABULARY), max_tokens=3, end_ids=frozenset(), table=table)


class Unsteady(CollectingSink):
    """A client that fails at one of the engine's calls, at its third piece or from then on."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self._failing = failing

    def _fail_at(self, name: str) -> None:
        if self._failing == name and len(self.pieces) >= 3:
            raise OSError(f"{name} failed")

    def send(self, piece: Piece) -> None:
        self._fail_at("send")
        super().send(piece)

    def is_cancelled(self) -> bool:
        """Fail, or say that it is there; a client that cannot be dropped has gone."""
        self._fail_at("is_cancelled")
        return self._failing == "cancelled" and len(self.pieces) >= 3

    def cancelled(self) -> None:
        self._fail_at("cancelled")
        super().cancelled()


def _answers_beside(
    start_engine: StartEngine, broken: Request, sink: CollectingSink
) -> tuple[list[int], list[int]]:
    with start_engine() as engine:
        alone = CollectingSink()
        engine.submit(_request(), alone)
        expected = alone.wait()

        def join(_: Piece) -> None:
            if len(beside.pieces) == 1:
                engine.submit(broken, sink)

        beside = CollectingSink(join)
        engine.submit(_request(), beside)
        return expected, beside.wait()


def test_equal_requests_wait_and_one_leaves(start_engine: StartEngine) -> None:
    with start_engine(max_batch_size=1) as engine:
        waiting = [CollectingSink() for _ in range(3)]

        def queue_up(_: Piece) -> None:
            # In the engine's thread, so that all three wait when one of them leaves.
            if len(running.pieces) == 1:
                for sink in waiting:
                    engine.submit(_about_an_image(), sink)
                waiting[1].walked_away = True

        running = CollectingSink(queue_up)
        engine.submit(_request(), running)
        assert len(running.wait()) == TOKENS
        waiting[1].wait_ended()
        assert len(waiting[0].wait()) == len(waiting[2].wait()) == 3
    assert (waiting[1].was_cancelled, waiting[1].error) == (True, None)


@cases(
    "broken",
    {
        "end token past the logits": Request(
            ids=PROMPT,
            max_tokens=9,
            end_ids=frozenset({VOCABULARY}),
            sampling=Sampling(min_tokens=2),
        ),
        "nothing is left to draw from": _request(
            bias=np.full(VOCABULARY, -np.inf, np.float32), sampling=Sampling(top_k=5, seed=1)
        ),
        "bad word past the logits": _request(bad=((VOCABULARY + 5,),)),
    },
)
def test_a_row_that_cannot_be_sampled(start_engine: StartEngine, broken: Request) -> None:
    sink = CollectingSink()
    expected, actual = _answers_beside(start_engine, broken, sink)
    sink.wait_ended()
    assert (sink.error is not None, expected) == (True, actual)


@pytest.mark.parametrize("failing", ["send", "is_cancelled", "cancelled"])
def test_a_client_that_cannot_be_reached(start_engine: StartEngine, failing: str) -> None:
    expected, actual = _answers_beside(start_engine, _request(TOKENS // 2), Unsteady(failing))
    assert expected == actual


def test_steps_that_cannot_be_counted(language_model: LanguageModel) -> None:
    def fail(_: Mapping[int, int]) -> NoReturn:
        raise OSError("the port is closed")

    with started(Engine(language_model, AMPLE_OPTIONS), fail) as engine:
        for _ in range(2):
            assert [len(one) for one in answers_of(engine, [_request(5)])] == [5]


class PickyEncoder:
    """Encodes numbers, and fails for an entire pass that holds a 13."""

    def read(self, inputs: Tensors) -> int:
        return int(inputs["IMAGE"][0])

    def encode(self, requests: Sequence[Any], salt: bytes = b"") -> list[Features]:
        del salt
        if 13 in requests:
            raise ZeroDivisionError("13 cannot be encoded")
        return [Features(table=np.full((1, 1), number, np.float32)) for number in requests]


def test_an_image_that_breaks_the_encoders_pass() -> None:
    requests = [{"IMAGE": np.array([number])} for number in (1, 13, 2)]
    results = encode_requests(PickyEncoder(), requests, np.float32)
    said: Callable[[object], object] = lambda one: (  # noqa: E731
        one["OUT_PROMPT_EMBEDDING_TABLE"].item() if isinstance(one, dict) else type(one)
    )
    assert [1.0, ZeroDivisionError, 2.0] == [said(one) for one in results]


NAN, INFINITE = float("nan"), float("inf")


def about_features(number: float, **changes: Any) -> Request:
    table = np.full((1, HIDDEN), 0.1, np.float32)
    table[0, HIDDEN // 2] = number
    settings: dict[str, Any] = {"max_tokens": 6, "end_ids": frozenset()}
    return Request(ids=(2, 10, VOCABULARY, 11), table=table, **settings | changes)


@pytest.fixture(scope="module", params=["modules", "fused"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    if request.param == "fused":
        return fused_model(SLOTS, MAX_LENGTH)
    found = request.getfixturevalue("language_model")
    assert isinstance(found, LanguageModel)
    return found


def answers(model: LanguageModel, *requests: Request) -> list[list[int] | type[Exception]]:
    with engine_starter(model)() as engine:
        return outcomes(engine, requests)


@cases(
    "changes",
    {
        "greedy": {},
        "sampled": {"sampling": Sampling(top_k=5, seed=1, temperature=0.7)},
        "penalised": {"sampling": Sampling(repetition_penalty=1.2)},
        "scored": {"wanted": Wanted(log_probs=True, likeliest=3)},
    },
)
@pytest.mark.parametrize("number", [NAN, INFINITE], ids=["nan", "infinite"])
def test_its_client_gets_an_error(
    model: LanguageModel, number: float, changes: dict[str, Any]
) -> None:
    (alone,) = answers(model, about_features(0.1))
    broken, beside = about_features(number, **changes), about_features(0.1)
    assert [alone, NotFiniteError, alone] == answers(model, beside, broken, beside)
    assert [NotFiniteError, alone] == [*answers(model, broken), *answers(model, beside)]


ROW = (1.0, 3.0, 2.0)


@pytest.mark.parametrize("rules", [None, Rules(draw=0.5)], ids=["greedy", "drawn"])
@cases(
    "row is_number",
    {
        "finite": (ROW, True),
        "nan": ((1.0, NAN, 2.0), False),
        "infinite": ((INFINITE, 3.0, 2.0), False),
        "all-excluded": ((-INFINITE,) * 3, False),
        "some-excluded": ((-INFINITE, 3.0, -INFINITE), True),
    },
)
def test_one_value_of_a_row_is_looked_at(
    row: Sequence[float], rules: Rules | None, *, is_number: bool
) -> None:
    """A model may exclude tokens with minus infinity; rows beside it are not changed."""
    chosen = choose_all(torch.tensor([ROW, row]), [None, rules], [None, None])
    assert (1, is_number) == (chosen[0].token, chosen[1].token != NOT_FINITE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_looked_at(dtype: torch.dtype) -> None:
    """Captured passes have logits of the model's type: float16 overflows at 65,504."""
    logits = (torch.tensor([ROW, ROW]) * torch.tensor([[1.0], [1e39]])).to(dtype)
    assert likeliest_finite(logits, logits.argmax(dim=-1)).tolist() == [1, NOT_FINITE]


class Overflowing:
    """Encodes numbers; of 13 a feature is not finite."""

    def read(self, inputs: Tensors) -> int:
        return int(inputs["IMAGE"][0])

    def encode(self, requests: Sequence[Any], salt: bytes = b"") -> list[Features]:
        del salt
        return [
            Features(table=np.full((1, 1), NAN if one == 13 else one, np.float32))
            for one in requests
        ]


def test_features_of_an_image() -> None:
    """They are refused where they are made, whichever engine would read them."""
    requests = [{"IMAGE": np.array([number])} for number in (1, 13, 2)]
    results = encode_requests(Overflowing(), requests, np.float32)
    assert [dict, NotFiniteError, dict] == [type(one) for one in results]


def test_a_checkpoint_that_answers_with_no_numbers(tmp_path: Path) -> None:
    """Weights that are finite and overflow end the build of a checkpoint that can be run there."""
    checkpoint = texts.write("bart", tmp_path / "checkpoint")
    path = checkpoint / "model.safetensors"
    weights = load_file(path)
    name = next(one for one in weights if one.endswith("decoder.layernorm_embedding.weight"))
    weights[name] = torch.full_like(weights[name], 3e38)
    path.unlink()
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(WeightsUnusableError, match="not finite"):
        build(checkpoint, tmp_path / "store", evaluated=True)
