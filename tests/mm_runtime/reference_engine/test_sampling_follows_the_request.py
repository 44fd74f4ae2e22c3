"""Each rule of sampling changes the choice the way its description says."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from mm_runtime.reference_engine import choosing
from mm_runtime.reference_engine.choosing import NOTHING, choose, choose_all
from mm_runtime.reference_engine.sampling import TokenChooser
from mm_runtime.serving.generate.request import Request, Sampling
from support.cases import cases

LOGITS = torch.tensor([1.0, 3.0, 2.9, 0.5, -1.0])
"""Token 1 is likeliest, then 2."""

SIZE = len(LOGITS)


def _chooser(prompt: tuple[int, ...] = (4,), **changes: object) -> TokenChooser:
    fields = {"max_tokens": 9, "end_ids": frozenset({0}), **changes}
    return TokenChooser(Request(ids=prompt, **fields), SIZE)  # type: ignore[arg-type]


def _next(chooser: TokenChooser, answer: Sequence[int], logits: torch.Tensor = LOGITS) -> int:
    return int(choose(logits[None], [chooser.rules(answer)]))


def _draws(sampling: Sampling, count: int = 2000) -> Counter[int]:
    chooser = _chooser(sampling=sampling)
    rules = [chooser.rules(range(place)) for place in range(count)]
    return Counter(choose(LOGITS.expand(count, -1), rules).tolist())


@cases(
    "sampling",
    {
        "nothing set": Sampling(),
        "temperature alone": Sampling(temperature=5.0),
        "top_k 1": Sampling(top_k=1, top_p=0.9, temperature=2.0),
        "temperature 0": Sampling(top_p=1.0, temperature=0.0),
    },
)
def test_greedy(sampling: Sampling) -> None:
    """As in TensorRT-LLM, decoding is greedy unless top_k or top_p requests more."""
    assert {1} == set(_draws(sampling, 50))


def test_sampling_follows_the_probabilities() -> None:
    draws = _draws(Sampling(top_p=1.0, seed=3), 4000)
    expected = LOGITS.softmax(-1).tolist()
    actual = [draws[token] / 4000 for token in range(SIZE)]
    assert expected == pytest.approx(actual, abs=0.03)


def test_top_k_keeps_the_likeliest() -> None:
    assert {1, 2} == set(_draws(Sampling(top_k=2)))


@pytest.mark.parametrize("cut", [{"top_p": 1.0}, {"top_k": 4}], ids=["alone", "with top_k"])
def test_min_p_keeps_what_is_near_the_likeliest(cut: dict[str, float]) -> None:
    """Token 2 has 0.9 of the likeliest one's probability, the next one 0.14."""
    assert set(_draws(Sampling(min_p=0.5, **cut))) == {1, 2}  # type: ignore[arg-type]


@cases(
    "top_p tokens",
    {
        "less than the first token's share": (0.01, {1}),
        "first and second": (0.6, {1, 2}),
        "nearly everything": (0.999, {0, 1, 2, 3, 4}),
    },
)
def test_top_p_keeps_the_mass(top_p: float, tokens: set[int]) -> None:
    assert tokens == set(_draws(Sampling(top_p=top_p)))


def test_seed_repeats_an_answer() -> None:
    sequences = [
        [_next(chooser, range(place)) for place in range(40)]
        for chooser in (_chooser(sampling=Sampling(top_p=1.0, seed=seed)) for seed in (7, 7, 8))
    ]
    assert sequences[0] == sequences[1]
    assert sequences[0] != sequences[2]


@cases(
    "changes answer expected",
    {
        "bad word": ({"bad": ((1,),)}, [], 2),
        "bad sequence completed": ({"bad": ((3, 1),)}, [3], 2),
        "bad sequence not begun": ({"bad": ((3, 1),)}, [2], 1),
        "repetition": ({"sampling": Sampling(repetition_penalty=2.0)}, [1], 2),
        "in prompt": ({"sampling": Sampling(repetition_penalty=2.0), "prompt": (1,)}, [], 2),
        "presence": ({"sampling": Sampling(presence_penalty=0.5)}, [1], 2),
        "presence counts the answer only": (
            {"sampling": Sampling(presence_penalty=0.5), "prompt": (1,)},
            [],
            1,
        ),
        "frequency": ({"sampling": Sampling(frequency_penalty=0.04)}, [1] * 3, 2),
        "twice only": ({"sampling": Sampling(frequency_penalty=0.04)}, [1] * 2, 1),
        "too early": ({"end_ids": frozenset({1}), "sampling": Sampling(min_tokens=2)}, [3], 2),
        "may end": ({"end_ids": frozenset({1}), "sampling": Sampling(min_tokens=1)}, [3], 1),
        "bias": ({"bias": torch.tensor([0.0, 0, 0, 9, 0]).numpy()}, [], 3),
    },
)
def test_rules_move_the_choice(
    changes: dict[str, object], answer: list[int], expected: int
) -> None:
    assert expected == _next(_chooser(**changes), answer)  # type: ignore[arg-type]


def test_logits_of_the_step_are_not_changed() -> None:
    before = LOGITS.clone()
    _next(_chooser(bad=((1,),)), [])
    assert torch.equal(before, LOGITS)


@cases(
    "changes expected",
    {
        "greedy": ({}, True),
        "sampled": ({"sampling": Sampling(top_k=5)}, False),
        "bad words": ({"bad": ((1,),)}, False),
        "min tokens": ({"sampling": Sampling(min_tokens=1)}, False),
    },
)
def test_only_plain_requests_share_the_argmax(changes: dict[str, object], expected: bool) -> None:  # noqa: FBT001
    assert expected == _chooser(**changes).plain  # type: ignore[arg-type]


def _mixed() -> list[TokenChooser]:
    samplings = [
        Sampling(top_p=1.0, seed=1),
        Sampling(top_k=2, seed=2, temperature=0.7),
        Sampling(top_p=0.8, seed=3, frequency_penalty=0.4),
        Sampling(),
        Sampling(repetition_penalty=1.4, top_p=1.0, seed=4),
        Sampling(top_k=3, top_p=0.5, seed=5),
        Sampling(min_tokens=30, top_p=1.0, min_p=0.2, temperature=9.0, seed=6),
    ]
    return [_chooser(sampling=one, bad=((3, 1),)) for one in samplings]


@pytest.mark.parametrize("at_once", [1, 1 << 20], ids=["row by row", "together"])
def test_rows_are_chosen_as_alone(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "VALUES_AT_ONCE", at_once)
    logits = torch.randn((7, SIZE), generator=torch.Generator().manual_seed(1))
    for place in range(25):
        answer = [1, 3] * place
        rules = [one.rules(answer) for one in _mixed()]
        alone = [int(choose(row[None], [one])) for row, one in zip(logits, rules, strict=True)]
        assert choose(logits, rules).tolist() == alone


def test_tokens_without_probability_are_never_drawn() -> None:
    chooser = _chooser(sampling=Sampling(top_p=1.0), bad=((0,), (4,)))
    rules = [replace(chooser.rules([]), draw=draw) for draw in (0.0, 1.0 - 2.0**-53, 1.0)]
    assert choose(LOGITS.expand(3, -1), rules).tolist() == [1, 3, 3]


def test_nothing_to_draw_from_is_said_of_its_row() -> None:
    nothing = torch.full((SIZE,), float("-inf")).numpy()
    broken = _chooser(sampling=Sampling(top_k=2), bias=nothing)
    rules = [broken.rules([]), _chooser(sampling=Sampling(top_k=1)).rules([])]
    assert choose(LOGITS.expand(2, -1), rules).tolist() == [NOTHING, 1]


@cases(
    "changes",
    {
        "bad word": {"bad": ((SIZE,),)},
        "end": {"end_ids": frozenset({SIZE}), "sampling": Sampling(min_tokens=1)},
    },
)
def test_words_past_the_vocabulary_never_reach_the_device(changes: dict[str, object]) -> None:
    """A GPU would end the process for such an index."""
    with pytest.raises(ValueError, match="are not all below 5"):
        _chooser(**changes).rules([])


def test_probabilities_are_those_of_the_model() -> None:
    rules = [_chooser(bad=((1,),)).rules([]), None]
    chosen = choose_all(LOGITS.expand(2, -1), rules, [0, None])
    assert [one.token for one in chosen] == [2, 1]
    assert chosen[0].log_prob == pytest.approx(float(LOGITS.log_softmax(-1)[2]))
    assert (chosen[1].log_prob, chosen[1].likeliest) == (0.0, ())


def test_the_likeliest_tokens_are_those_of_the_model() -> None:
    chosen = choose_all(LOGITS.expand(3, -1), [None] * 3, [2, None, 1])
    values = LOGITS.log_softmax(-1)
    assert [[token for token, _ in one.likeliest] for one in chosen] == [[1, 2], [], [1]]
    assert chosen[0].likeliest[1][1] == pytest.approx(float(values[2]))
