"""The next token of every row of a step, computed where the logits are.

What the processor knows of a row (`Rules`) is copied to the device for all rows together, and what
was chosen comes back in one copy: a GPU is waited for once a step, however many rows sample.

A row's token depends on its own logits and rules alone. Masses are summed in float64, whose
rounding is far below that of logits: so it does not matter how many rows a kernel has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mm_runtime.reference_engine.sampling import Ids, Rules
from mm_runtime.serving.device import fetching, sent

NEVER = float("-inf")

NOTHING = -1
"""Instead of a token: nothing is left to draw from."""

NOT_FINITE = -2
"""Instead of a token: a logit is NaN, or the greatest one is infinite."""

VALUES_AT_ONCE = 1 << 20
"""Logits that are sorted at one time: 32 rows of 32,000 words, 7 of 150,000. Their values, places
and masses take `SAMPLING_BYTES` each, which the plan counts."""


@dataclass(frozen=True)
class Chosen:
    """The next token of a row."""

    token: int
    """`NOTHING` where nothing is left to draw from, `NOT_FINITE` where logits are no numbers."""

    log_prob: float = 0.0
    """Natural logarithm of the model's own probability of it, where that is wanted."""

    likeliest: tuple[tuple[int, float], ...] = ()
    """As many tokens and their log probabilities as are wanted."""


def _nothing(tokens: torch.Tensor) -> None:
    """Do nothing beside a pass."""


def choose_all(
    logits: torch.Tensor,
    rules: Sequence[Rules | None],
    wanted: Sequence[int | None],
    beside: Callable[[torch.Tensor], None] = _nothing,
) -> list[Chosen]:
    """Return the next token of each row; the one place where a step waits for its device.

    Args:
        logits: float32 [rows, vocabulary], which stay as they are.
        rules: None: the likeliest token.
        wanted: how many of the likeliest tokens are reported beside the chosen one; None: none.
        beside: called once, before the tokens are waited for; receives them, int64 [rows], on the
            device, where none of what it begins holds them up.
    """
    ruled = [one for one in rules if one is not None]
    tokens = likeliest_finite(logits, logits.argmax(dim=-1))
    if ruled and len(ruled) == len(rules):
        # Without a copy of all logits: 2 MB of sixteen rows of 32,000.
        tokens = torch.where(tokens < 0, tokens, choose(logits, ruled))
    elif ruled:
        rows = [row for row, one in enumerate(rules) if one is not None]
        places = sent(torch.tensor(rows), logits.device)
        found = tokens[places]
        tokens[places] = torch.where(found < 0, found, choose(logits[places], ruled))
    reported = {row: most for row, most in enumerate(wanted) if most is not None}
    if not reported:
        fetched = fetching(tokens)
        beside(tokens)
        return [Chosen(token) for token in fetched()]
    most = max(reported.values())
    places = sent(torch.tensor([*reported]), logits.device)
    log_probs = logits[places].log_softmax(dim=-1)
    values, likeliest = log_probs.topk(most)
    own = log_probs.gather(1, tokens[places, None].clamp(min=0))
    # One copy; float64 holds each token exactly.
    found = torch.cat((own.double(), values.double(), likeliest.double()), dim=1)
    joined = torch.cat((tokens.double(), found.flatten()))
    fetched = fetching(joined)
    beside(tokens)
    flat = fetched()
    chosen = [Chosen(int(token)) for token in flat[: len(tokens)]]
    for at, (row, count) in enumerate(reported.items()):
        first = len(tokens) + at * (1 + 2 * most)
        own_value, *rest = flat[first : first + 1 + 2 * most]
        pairs = zip(map(int, rest[most:]), rest[:most], strict=True)
        chosen[row] = Chosen(chosen[row].token, own_value, tuple(pairs)[:count])
    return chosen


def likeliest_finite(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Put `NOT_FINITE` where a row's logits are no numbers; return the tokens.

    Torch takes NaN for the greatest value, so one value of a row says it of all. Less than all may
    be minus infinity: a model excludes such tokens. `tokens`: the likeliest of each row, are
    changed.
    """
    greatest = logits.gather(1, tokens[:, None])[:, 0]
    return tokens.masked_fill_(~greatest.isfinite(), NOT_FINITE)


def restricted(logits: torch.Tensor, rules: Sequence[Rules]) -> torch.Tensor:
    """Return a copy after bias, penalties and prohibitions, in TensorRT-LLM's order."""
    logits = logits.clone()
    for row, one in enumerate(rules):
        if one.bias is not None:
            logits[row] += one.bias
    if places := _places(logits, rules, lambda one: one.seen):
        factors = sent(
            torch.tensor([one.sampling.repetition_penalty for one in rules]), logits.device
        )
        values, factor = logits[places], factors[places[0]]
        logits[places] = torch.where(values > 0, values / factor, values * factor)
    if places := _places(logits, rules, lambda one: one.penalised):
        amounts = np.concatenate([one.penalties for one in rules])
        logits[places] -= sent(torch.from_numpy(amounts), logits.device)
    if places := _places(logits, rules, lambda one: one.never):
        logits[places] = NEVER
    if guided := [row for row, one in enumerate(rules) if one.allowed is not None]:
        allowed = np.stack([one.allowed for one in rules if one.allowed is not None])
        barred = ~sent(torch.from_numpy(allowed), logits.device)
        if len(guided) == len(rules):
            logits.masked_fill_(barred, NEVER)  # in place: a copy of the rows took 5 ms of 7
        else:
            rows = sent(torch.tensor(guided), logits.device)
            logits[rows] = logits[rows].masked_fill(barred, NEVER)
    for row, one in enumerate(rules):
        if one.together_from is not None:
            _count_together(logits[row], one.together_from)
    return logits


def _count_together(logits: torch.Tensor, first: int) -> None:
    """Bar [vocabulary] before a token, where those from it on are likelier together than any."""
    log_probs = logits.log_softmax(dim=-1)
    # Decided on the device: it is waited for once a step.
    together = log_probs[first:].logsumexp(dim=-1) > log_probs[:first].max()
    logits[:first].masked_fill_(together, NEVER)


def _places(
    logits: torch.Tensor, rules: Sequence[Rules], read: Callable[[Rules], Ids]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return row and token of everything that a rule of all rows names; None: of nothing."""
    tokens = [read(one) for one in rules]
    lengths = [len(one) for one in tokens]
    if not any(lengths):
        return None
    both = np.stack((np.repeat(np.arange(len(rules)), lengths), np.concatenate(tokens)))
    rows, words = sent(torch.from_numpy(both), logits.device)
    return rows, words


def choose(logits: torch.Tensor, rules: Sequence[Rules]) -> torch.Tensor:
    """Return the next token of each row, int64 [rows]; `NOTHING` where there is none."""
    logits = restricted(logits, rules)
    tokens = logits.argmax(dim=-1)
    for ordered in (False, True):
        rows = [at for at, one in enumerate(rules) if one.draw is not None and _cut(one) == ordered]
        count = max(1, VALUES_AT_ONCE // logits.shape[-1])
        for first in range(0, len(rows), count):
            part = rows[first : first + count]
            places = sent(torch.tensor(part), logits.device)
            drawn = _draw(logits[places], [rules[at] for at in part], ordered=ordered)
            tokens[places] = drawn
    return tokens


def _cut(rules: Rules) -> bool:
    return rules.sampling.top_k > 0 or rules.sampling.nucleus < 1.0


def _draw(logits: torch.Tensor, rules: Sequence[Rules], *, ordered: bool) -> torch.Tensor:
    """Draw from the likeliest tokens: `top_k` of them, `top_p` of their mass, `min_p`; or all."""
    size = logits.shape[-1]
    numbers = [
        (one.draw, how.temperature, how.top_k or size, how.nucleus, how.min_p)
        for one in rules
        for how in (one.sampling,)
    ]
    given = sent(torch.tensor(numbers, dtype=torch.float64), logits.device)
    draw, temperature, count, nucleus, least = given[:, :, None].unbind(dim=1)
    order = None
    if ordered:
        logits, order = logits.sort(dim=-1, descending=True, stable=True)
    places = torch.arange(size, device=logits.device)
    masses = logits.double().div_(temperature)
    masses = masses.sub_(masses.amax(dim=-1, keepdim=True)).exp_()
    if ordered:
        masses.masked_fill_(places >= count, 0.0)
    else:
        masses.masked_fill_(masses < least, 0.0)  # of the likeliest one, whose mass is 1
    sums = masses.cumsum(dim=-1)
    end = sums[:, -1:]
    if ordered:
        # A token stays when the mass before it is under top_p; so the first one always does.
        stays = (sums - masses < nucleus * end) | (nucleus >= 1.0)
        stays &= masses >= least
        masses.masked_fill_(~stays, 0.0)
        end = sums.masked_fill(~stays, 0.0).amax(dim=-1, keepdim=True)
    wanted = torch.minimum(draw * end, torch.nextafter(end, torch.zeros_like(end)))
    found = (sums > wanted) & (masses > 0)
    first = torch.where(found, places, size).amin(dim=-1, keepdim=True)
    tokens = first if order is None else order.gather(1, first.clamp(max=size - 1))
    return torch.where(first < size, tokens, NOTHING)[:, 0]
