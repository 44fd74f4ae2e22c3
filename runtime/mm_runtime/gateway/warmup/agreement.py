"""A served answer against the checkpoint's, token by token up to the first near-tie. Pure."""

from dataclasses import dataclass
from typing import Any

from mm_api.documents.evaluation import (
    SHOWN_CHARACTERS,
    Candidate,
    EvaluationPrompt,
    EvaluationStep,
    FirstDifference,
)

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a character is shown as whose later bytes are in a token that is not there yet."""


@dataclass(frozen=True, slots=True)
class Served:
    """The answer to one prompt."""

    text: str
    log_probs: tuple[float, ...] = ()
    """Log probabilities of its tokens, in order; empty: the server returns none."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one answer compares."""

    tokens: int
    """That were compared."""

    agreed: int
    near_tie: bool = False
    """The answers part where two tokens are nearly tied: nothing after that is compared."""

    log_prob_distances: tuple[float, ...] = ()
    """Distances of the equal tokens; empty: there were no log probabilities to compare."""

    difference: FirstDifference | None = None

    @property
    def parts_at(self) -> int | None:
        """Return the place of the first other token, counted from 1; None: all are equal."""
        other = self.difference is not None and self.difference.log_prob is None
        return self.agreed + 1 if self.near_tie or other else None


def compare(prompt: EvaluationPrompt, served: Served, *, bound: float) -> Agreement:
    """Return how a greedy answer of as many tokens compares with the checkpoint's."""
    before, apart = "", list[float]()
    # A server that normalises them over the tokens of top_k gives 0 for every greedy one.
    log_probs = served.log_probs if any(served.log_probs) else ()
    for number, step in enumerate(prompt.steps, 1):
        likeliest = step.candidates[0]
        if not _continues(served.text, likeliest):
            distance = _distance(step, served.text, before)
            if distance <= bound:
                return Agreement(
                    number - 1, number - 1, near_tie=True, log_prob_distances=tuple(apart)
                )
            return Agreement(
                number,
                number - 1,
                log_prob_distances=tuple(apart),
                difference=FirstDifference(
                    **_place(prompt, number, served), distance=round(distance, 2), bound=bound
                ),
            )
        before = likeliest.text
        if number > len(log_probs) or likeliest.ends or step.log_sum is None or not step.spread:
            continue
        log_prob = log_probs[number - 1]
        apart.append(abs(likeliest.logit - step.log_sum - log_prob) / step.spread)
        if apart[-1] > bound:
            found = FirstDifference(
                **_place(prompt, number, served),
                distance=round(apart[-1], 2),
                bound=bound,
                log_prob=log_prob,
            )
            return Agreement(number, number - 1, log_prob_distances=tuple(apart), difference=found)
    return Agreement(len(prompt.steps), len(prompt.steps), log_prob_distances=tuple(apart))


def _place(prompt: EvaluationPrompt, number: int, served: Served) -> dict[str, Any]:
    return {
        "prompt": prompt.text[:SHOWN_CHARACTERS],
        "adapter": prompt.adapter,
        "token": number,
        "expected": prompt.steps[number - 1].candidates[0].text[-SHOWN_CHARACTERS:],
        "answered": served.text[:SHOWN_CHARACTERS],
    }


def _continues(answer: str, candidate: Candidate) -> bool:
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
