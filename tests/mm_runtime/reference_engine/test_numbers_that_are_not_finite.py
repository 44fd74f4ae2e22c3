"""A request of which the model computes NaN or infinity gets an error, and no tokens."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mm_runtime.errors import WeightsUnusableError
from mm_runtime.reference_engine.choosing import NOT_FINITE, choose_all, likeliest_finite
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.sampling import Rules
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.features import Features
from mm_runtime.serving.errors import NotFiniteError
from mm_runtime.serving.generate.request import Request, Sampling, Wanted
from mm_runtime.serving.tensors import Tensors
from support.cases import cases
from support.collecting_sink import CollectingSink
from support.engines import MAX_LENGTH, SLOTS, engine_starter
from support.families import texts
from support.families.pipeline import build
from support.fused_models import fused_model
from support.tiny_llava import VOCABULARY

HIDDEN = 128
NAN, INFINITE = float("nan"), float("inf")


def about_features(number: float, **changes: Any) -> Request:
    table = np.full((1, HIDDEN), 0.1, np.float32)
    table[0, HIDDEN // 2] = number
    settings: dict[str, Any] = {"max_tokens": 6, "end_ids": frozenset()}
    return Request(ids=(2, 10, VOCABULARY, 11), table=table, **settings | changes)


@pytest.fixture(scope="module", params=["modules", "fused"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    """The tiny model, by transformers' modules and with fused weights and captured passes."""
    if request.param == "fused":
        return fused_model(SLOTS, MAX_LENGTH)
    found = request.getfixturevalue("language_model")
    assert isinstance(found, LanguageModel)
    return found


def answers(model: LanguageModel, *requests: Request) -> Iterator[list[int] | type[Exception]]:
    """Yield the answers to requests that are in flight together, or their errors."""
    sinks = [CollectingSink() for _ in requests]
    with engine_starter(model)() as engine:
        for request, sink in zip(requests, sinks, strict=True):
            engine.submit(request, sink)
        for sink in sinks:
            sink.wait_ended()
            yield sink.wait() if sink.error is None else type(sink.error)


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
    """The requests beside it, and the one after it in its slot, get what they get alone."""
    (alone,) = answers(model, about_features(0.1))
    broken, beside = about_features(number, **changes), about_features(0.1)
    assert [alone, NotFiniteError, alone] == list(answers(model, beside, broken, beside))
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
