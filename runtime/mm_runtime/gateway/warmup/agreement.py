"""A served answer against the checkpoint's, token by token up to the first near-tie. Pure."""

from dataclasses import dataclass
from typing import Final

from mm_api.documents.evaluation import (
    SHOWN_CHARACTERS,
    Candidate,
    EvaluationPrompt,
    EvaluationStep,
    FirstDifference,
)

NEAR_TIE: Final = {"float32": 0.02, "float16": 0.1, "bfloat16": 0.3}
"""Standard deviations of a step's logits below which two tokens are nearly tied, by what the engine
computes in; the larger one counts when the answers were computed in another type. Against float32,
leads of the likeliest tokens changed by at most 0.016 (float16) and 0.145 (bfloat16) in the answers
of small models of nine families; larger models and GPUs were not measured."""

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a character is shown as whose later bytes are in a token that is not there yet."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one answer compares."""

    tokens: int
    """That were compared."""

    agreed: int
    near_tie: bool = False
    """The answers part where two tokens are nearly tied: nothing after that is compared."""

    difference: FirstDifference | None = None


def near_tie_bound(engine_dtype: str, answers_dtype: str) -> float:
    """Return below which distance two tokens are nearly tied."""
    widest = max(NEAR_TIE.values())
    return max(NEAR_TIE.get(one, widest) for one in (engine_dtype, answers_dtype))


def compare(prompt: EvaluationPrompt, answer: str, *, bound: float) -> Agreement:
    """Return how a greedy answer of as many tokens compares with the checkpoint's.

    Args:
        prompt: with the checkpoint's answer.
        answer: text that was served.
        bound: see `near_tie_bound`.
    """
    before = ""
    for number, step in enumerate(prompt.steps, 1):
        likeliest = step.candidates[0]
        if _continues(answer, likeliest):
            before = likeliest.text
            continue
        distance = _distance(step, answer, before)
        if distance <= bound:
            return Agreement(number - 1, number - 1, near_tie=True)
        difference = FirstDifference(
            prompt=prompt.text[:SHOWN_CHARACTERS],
            adapter=prompt.adapter,
            token=number,
            expected=likeliest.text[-SHOWN_CHARACTERS:],
            answered=answer[:SHOWN_CHARACTERS],
            distance=round(distance, 2),
            bound=bound,
        )
        return Agreement(number, number - 1, difference=difference)
    return Agreement(len(prompt.steps), len(prompt.steps))


def _continues(answer: str, candidate: Candidate) -> bool:
    """Return whether an answer may have this token in its place."""
    if candidate.ends:
        return answer == candidate.text
    return answer.startswith(candidate.text.rstrip(_UNFINISHED))


def _distance(step: EvaluationStep, answer: str, before: str) -> float:
    """Return by how much the likeliest token leads the one that was served.

    Tokens whose texts begin alike cannot be distinguished in the answer: the longest counts. A
    token that is not among the likeliest is at least as far away as the last of them.
    """
    likeliest, *others = step.candidates
    fitting = [
        one for one in others if (one.ends or one.text != before) and _continues(answer, one)
    ]
    served = max(fitting, key=lambda one: len(one.text), default=others[-1])
    lead = likeliest.logit - served.logit
    return lead / step.spread if step.spread else 0.0
