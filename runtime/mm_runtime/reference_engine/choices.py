"""What the requests of a step say next: their rules gathered, their tokens chosen together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from mm_runtime.reference_engine.choosing import NOT_FINITE, Chosen, choose_all
from mm_runtime.reference_engine.model import Passed
from mm_runtime.reference_engine.running import Running
from mm_runtime.reference_engine.sampling import Rules
from mm_runtime.serving.errors import NotFiniteError


@dataclass(frozen=True)
class Choices:
    """Of a step whose requests have not changed yet."""

    logits: torch.Tensor | None
    """float32 [requests, vocabulary]; None: no request needs them."""

    chosen: Sequence[Chosen]
    """One a request."""

    errors: Mapping[int, Exception]
    """Place of a request -> why it ends."""


def choices_of(
    advancing: Sequence[Running],
    passed: Passed,
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    beside: Callable[[torch.Tensor], None],
) -> Choices:
    """Return the next token of every request, and what is wrong with those that have none.

    `passed`: decoded them; one more has had the last row of its prompt read. `beside`: called once,
    with the tokens on the device, which are about to be waited for.
    """
    likeliest = passed.likeliest
    if likeliest is not None and not any(running.reads_logits for running in advancing):
        fetched = likeliest.fetch(len(advancing))
        beside(likeliest.tokens[: len(advancing)])
        chosen = [Chosen(token) for token in fetched()]
        return Choices(None, chosen, _not_finite(chosen) | dict(passed.broken))
    if likeliest is not None:
        # Of its own: the next pass overwrites them.
        logits = likeliest.logits[: len(advancing)].to(torch.float32, copy=True)
    else:
        states = passed.decoded
        if len(advancing) > len(states):
            states = torch.cat((states, passed.read[-1:]))
        logits = logits_of(states)
    rules = list[Rules | None]([None] * len(logits))
    wanted = list[int | None]([None] * len(logits))
    errors = dict(passed.broken)
    for place, running in enumerate(advancing):
        try:
            rules[place] = running.rules()
            if running.request.wanted.log_probs:
                wanted[place] = running.request.wanted.likeliest
        except Exception as error:  # noqa: BLE001 (of this request alone, which gets it later)
            errors[place] = error
    chosen = choose_all(logits, rules, wanted, beside)
    return Choices(logits, chosen, _not_finite(chosen) | errors)


def _not_finite(chosen: Sequence[Chosen]) -> dict[int, Exception]:
    return {
        place: NotFiniteError("the model's logits are not finite: NaN, or infinity")
        for place, one in enumerate(chosen)
        if one.token == NOT_FINITE
    }
