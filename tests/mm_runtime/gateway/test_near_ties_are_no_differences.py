"""Answers are compared up to the first near-tie: what rounding can exchange is no difference."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from mm_api.documents.evaluation import (
    MOST_BYTES,
    Candidate,
    Evaluation,
    EvaluationPrompt,
    EvaluationStep,
)
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.backends.engine import EngineRequest, Text
from mm_runtime.gateway.warmup.agreement import Agreement, Served, compare
from mm_runtime.gateway.warmup.answers import Answers
from mm_runtime.gateway.warmup.bounds import QUANTIZED, near_tie_bound
from mm_runtime.gateway.warmup.evaluation import Comparison, EvaluationFailedError
from support.cases import cases

FINGERPRINT = "a" * 64


def step(*candidates: tuple[str, float], ends: str = "", spread: float = 2.0) -> EvaluationStep:
    """Return a step of texts and logits; `ends` is the text of the candidate that ends."""
    return EvaluationStep(
        candidates=[
            Candidate(token=number, text=text, logit=logit, ends=text == ends)
            for number, (text, logit) in enumerate(candidates)
        ],
        spread=spread,
    )


PROMPT = EvaluationPrompt(
    text="What is it?",
    steps=[
        step(("a", 9.0), ("the", 4.0), ("an", 3.0)),
        step(("a red", 7.0), ("a dark", 6.9), ("a reddish", 2.0)),
        step(("a red square", 8.0), ("a red", 3.0), ("a red disc", 2.0), ends="a red"),
    ],
)


@cases(
    "answer expected",
    {
        "equal": ("a red square", (3, 3, False, None)),
        "near-tie": ("a dark square", (1, 1, True, None)),
        "other-first-token": ("the red square", (1, 0, False, (1, 2.5))),
        "not-among-the-likeliest": ("blue", (1, 0, False, (1, 3.0))),
        "ends-early": ("a red", (3, 2, False, (3, 2.5))),
        "last-token": ("a red disc", (3, 2, False, (3, 3.0))),
        "nothing": ("", (1, 0, False, (1, 3.0))),
    },
)
def test_an_answer_is_compared_token_by_token(
    answer: str, expected: tuple[int, int, bool, tuple[int, float] | None]
) -> None:
    """Tokens compared, tokens that agreed, and the first difference with its distance."""
    tokens, agreed, near_tie, first = expected
    found = compare(PROMPT, Served(answer), bound=0.1)
    assert (found.tokens, found.agreed, found.near_tie) == (tokens, agreed, near_tie)
    difference = found.difference
    assert (None if difference is None else (difference.token, difference.distance)) == first


def test_an_answer_that_does_not_end_is_a_difference() -> None:
    """The checkpoint ends after one token, and the server writes more."""
    prompt = EvaluationPrompt(
        text="?",
        steps=[step(("yes", 9.0), ("no", 1.0)), step(("yes", 9.0), ("yes!", 1.0), ends="yes")],
    )
    assert compare(prompt, Served("yes"), bound=0.1) == Agreement(2, 2)
    found = compare(prompt, Served("yes!"), bound=0.1).difference
    assert found is not None
    assert (found.token, found.distance) == (2, 4.0)


def test_half_of_a_character_is_no_difference() -> None:
    """A token with the first bytes of a character shows as a replacement until the next comes."""
    prompt = EvaluationPrompt(
        text="?",
        steps=[step(("\N{REPLACEMENT CHARACTER}", 9.0), ("x", 1.0)), step(("é", 9.0), ("e", 1.0))],
    )
    assert compare(prompt, Served("é"), bound=0.1) == Agreement(2, 2)


def test_quantized_weights_have_wider_bounds() -> None:
    """Whatever type they are computed in; a format that is not known has the widest."""
    for name, bound in QUANTIZED.items():
        assert near_tie_bound("float32", "float32", name) == bound
        assert near_tie_bound("bfloat16", "float32", name) == max(bound, 0.3)
    assert near_tie_bound("float16", "float32", "NVFP4") == max(QUANTIZED.values())


def scored(*log_probs: float) -> Agreement:
    """Return how an answer of the right tokens compares: their logits are 0, of a sum of 2."""
    steps = [
        EvaluationStep(
            candidates=[
                Candidate(token=1, text=text, logit=0.0),
                Candidate(token=2, text="?", logit=-9),
            ],
            spread=2.0,
            log_sum=2.0,
        )
        for text in ("a", "a b")
    ]
    prompt = EvaluationPrompt(text="What?", steps=steps)
    return compare(prompt, Served("a b", log_probs), bound=0.5)


def test_log_probabilities_of_equal_tokens_are_compared() -> None:
    """In standard deviations of the logits: -2 is right, one off is half a deviation."""
    near = scored(-2.0, -2.4)
    assert (near.tokens, near.agreed, near.difference) == (2, 2, None)
    assert max(near.log_prob_distances) == pytest.approx(0.2)
    far = scored(-2.0, -3.5)
    assert (far.tokens, far.agreed, max(far.log_prob_distances)) == (2, 1, 0.75)
    assert far.difference is not None
    assert (far.difference.token, far.difference.distance) == (2, 0.75)
    assert far.difference.log_prob == -3.5


@cases("log_probs", {"none": (), "normalised-over-the-one-token": (0.0, 0.0)})
def test_without_log_probabilities_tokens_alone_are_compared(log_probs: tuple[float, ...]) -> None:
    """A server that returns none, or those of a choice among one, is compared by its tokens."""
    assert scored(*log_probs) == Agreement(2, 2)


@cases(
    "served computed expected",
    {
        "float32": ("float32", "float32", 0.02),
        "served-in-half": ("float16", "float32", 0.1),
        "computed-in-bfloat16": ("float32", "bfloat16", 0.3),
        "unknown": ("int4", "float32", 0.3),
    },
)
def test_the_bound_follows_the_coarser_type(served: str, computed: str, expected: float) -> None:
    """What the engine computes in and what the answers were computed in both round."""
    assert expected == near_tie_bound(served, computed)


def test_the_report_counts_all_prompts_and_names_the_first() -> None:
    """One good answer, one near-tie, two differences: figures, and the first of them."""
    evaluation = Evaluation(fingerprint=FINGERPRINT, dtype="float32", prompts=[PROMPT] * 4)
    comparison = Comparison(evaluation, engine_dtype="float16")
    with pytest.raises(
        EvaluationFailedError, match=r"2 of 4 prompts differ.*token 1: expected 'a'"
    ):
        comparison.judge([Served(one) for one in ("a red square", "a dark one", "the", "blue")])
    report = comparison.report
    assert report is not None
    figures = (report.prompts, report.tokens, report.agreed, report.near_ties)
    assert figures == (4, 3 + 1 + 1 + 1, 3 + 1, 1)
    assert report.failed_prompts == 2
    assert len(evaluation.to_json()) < MOST_BYTES
    comparison.judge([Served("a red square")] * 4)
    assert comparison.report is not None
    assert comparison.report.problem is None


def _written(turn: Turn) -> str:
    marks = (part if isinstance(part, str) else "<image>" for part in turn.parts)
    return f"USER: {''.join(marks)} ASSISTANT:"


@cases(
    "question prompt text",
    {
        "by-the-server": (None, "What?", " a square"),
        "here": (_written, "USER: <image>What? ASSISTANT:", "a square"),
    },
)
async def test_the_question_is_written_by_one_of_them(
    question: Any, prompt: str, text: str
) -> None:
    """With a mark for its image; the space before the first word, which the prompt caused, goes."""
    sent: list[EngineRequest] = []

    async def generate(request: EngineRequest) -> AsyncIterator[Text]:
        sent.append(request)
        yield Text(" a square")

    admission = SimpleNamespace(admit=nullcontext, slot=nullcontext)
    service: Any = SimpleNamespace(admission=admission, engine=SimpleNamespace(generate=generate))
    candidate = {"token": 10, "text": "a", "logit": 1.0, "ends": False}
    step = {"candidates": [candidate, candidate | {"token": 11}], "spread": 1.0, "logSum": 1.0}
    prompt_of_build = EvaluationPrompt.model_validate(
        {"text": "What?", "image": 0, "steps": [step]}
    )

    served = await Answers(service, 9.0, question).to_prompt(prompt_of_build)

    assert (sent[0].prompt, served.text) == (prompt, text)
    assert sent[0].turns == (Turn("user", (Media.IMAGE, "What?")),)
