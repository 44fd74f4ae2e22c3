"""Budgets of tokens."""

import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.admission.tokens import (
    ContextLimits,
    TokenBudget,
    budget_tokens,
    check_characters,
)
from support.cases import cases

LIMITS = ContextLimits(max_input_len=100, max_seq_len=120)
FEATURES = 16


def _budget(text: int, images: int, wanted: int | None) -> TokenBudget:
    return budget_tokens(
        LIMITS, text_tokens=text, image_tokens=images * FEATURES, images=images, wanted=wanted
    )


@cases(
    "text images wanted expected",
    {
        "rest-of-the-sequence": (10, 0, None, (10, 0, 110)),
        "images-count-as-features": (8, 2, 5, (40, 32, 5)),
        "just-fits": (100, 0, 20, (100, 0, 20)),
    },
)
def test_what_fits_gets_its_budget(
    text: int, images: int, wanted: int | None, expected: tuple[int, int, int]
) -> None:
    budget = _budget(text, images, wanted)
    assert expected == (budget.prompt_tokens, budget.image_tokens, budget.max_tokens)


@cases(
    "text images wanted numbers",
    {
        "prompt": (101, 0, 1, "at most 100 .* 101 tokens"),
        "images": (89, 1, 1, r"105 tokens \(16 of them for 1 image"),
        "answer": (100, 0, 21, "120 tokens. You requested 121 .*100 .* 21"),
    },
)
def test_what_does_not_fit_is_refused_with_numbers(
    text: int, images: int, wanted: int, numbers: str
) -> None:
    with pytest.raises(InvalidRequestError, match=numbers) as caught:
        _budget(text, images, wanted)
    assert caught.value.code == "context_length_exceeded"


def test_a_text_of_megabytes_is_refused_uncounted() -> None:
    check_characters(LIMITS, "a" * 6400, "messages")
    with pytest.raises(InvalidRequestError, match=r"at most 100 .* 6401 characters") as caught:
        check_characters(LIMITS, "a" * 6401, "messages")
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(InvalidRequestError, match=r"Your prompt\[1\] has 6401 characters"):
        check_characters(LIMITS, "a" * 6401, "prompt[1]")
