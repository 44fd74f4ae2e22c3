"""What a run meant: percentiles, goodput under objectives, errors by kind. Pure numbers."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from pydantic import Field

from mm_api.base import ApiModel, Document
from mm_lab.loadtest.results import Result


class Percentiles(ApiModel):
    """A distribution of seconds by nearest rank: each number was really measured."""

    count: int = Field(description="Measurements.")
    mean: float = Field(description="Arithmetic mean.")
    p50: float = Field(description="Half of the measurements are not above it.")
    p90: float = Field(description="90 % are not above it.")
    p95: float = Field(description="95 % are not above it.")
    p99: float = Field(description="99 % are not above it.")
    max: float = Field(description="The largest.")


class Latencies(ApiModel):
    """Latencies of answered requests, from when they were due; None when nothing was measured."""

    time_to_first_token: Percentiles | None = Field(default=None, description="To the first token.")
    inter_token: Percentiles | None = Field(
        default=None, description="Between two pieces of one answer."
    )
    end_to_end: Percentiles | None = Field(
        default=None,
        validation_alias="wholeRequest",
        serialization_alias="wholeRequest",
        description="To the last byte.",
    )


class ObjectiveResult(ApiModel):
    """An objective and the share of all requests that were answered within it."""

    objective: str = Field(description="ttft, itl (mean of a request) or e2e.")
    target_seconds: float = Field(description="The latency to keep.")
    share: float = Field(description="Of all requests, failed ones included.")


class BenchReport(Document):
    """The result of `mm-lab bench`."""

    endpoint: str = Field(description="Address of the endpoint.")
    model: str = Field(description="Which model.")
    load: str = Field(description="The load, as text.")
    seed: int = Field(description="The same seed sends the same questions at the same times.")
    seconds: float = Field(description="Length of the measured part.")
    requests: int = Field(description="Requests that were due in it.")
    answered: int = Field(description="Requests that were answered.")
    errors: dict[str, int] = Field(description="Failed requests by kind.")
    offered_per_second: float = Field(description="Requests due per second.")
    answered_per_second: float = Field(description="Requests answered per second.")
    output_tokens_per_second: float = Field(description="Generated tokens per second.")
    prompt_tokens_per_second: float = Field(description="Prompt tokens per second.")
    images_per_second: float = Field(description="Images of answered requests per second.")
    everything: Latencies = Field(description="Latencies of all requests.")
    text_only: Latencies = Field(description="Latencies of requests without an image.")
    with_images: Latencies = Field(
        validation_alias="withPictures",
        serialization_alias="withPictures",
        description="Latencies of requests with images.",
    )
    first_token_by_turn: list[Percentiles] = Field(
        default=[], description="Of each turn of a chat, where chats have several."
    )
    objectives: list[ObjectiveResult] = Field(description="Each objective alone.")
    goodput_share: float | None = Field(
        default=None, description="Share of all requests that were answered within every objective."
    )
    goodput_per_second: float | None = Field(
        default=None, description="The same as requests per second."
    )
    send_lag_p99_seconds: float = Field(
        description="How late requests left this client: when it is not far below the latencies, "
        "the client is the bottleneck."
    )


_MEASURES: Final[dict[str, Callable[[Result], float | None]]] = {
    "ttft": lambda result: result.time_to_first_token,
    "itl": lambda result: sum(result.gaps) / len(result.gaps) if result.gaps else 0.0,
    "e2e": lambda result: result.end_to_end,
}
OBJECTIVES: Final = tuple(_MEASURES)


def summarise(
    results: Sequence[Result],
    *,
    endpoint: str,
    model: str,
    load: str,
    seed: int,
    begin: float,
    end: float,
    targets: dict[str, float],
) -> BenchReport:
    """Return the report of the requests that were due between two times.

    Args:
        results: every result of the run, in any order.
        endpoint: its address.
        model: which model.
        load: the load as text.
        seed: the run's.
        begin: end of the warm-up, in seconds since the run began.
        end: when the last request was due at the latest.
        targets: seconds by objective, names as in `OBJECTIVES`.
    """
    counted = [result for result in results if begin <= result.due < end]
    answered = [result for result in counted if not result.error]
    seconds = end - begin
    good = [one for one in answered if all(_keeps(one, *item) for item in targets.items())]
    lags = [result.sent - result.due for result in counted]
    return BenchReport(
        endpoint=endpoint,
        model=model,
        load=load,
        seed=seed,
        seconds=seconds,
        requests=len(counted),
        answered=len(answered),
        errors=dict(sorted(Counter(one.error for one in counted if one.error).items())),
        offered_per_second=len(counted) / seconds,
        answered_per_second=len(answered) / seconds,
        output_tokens_per_second=sum(one.output_tokens for one in answered) / seconds,
        prompt_tokens_per_second=sum(one.prompt_tokens for one in answered) / seconds,
        images_per_second=sum(one.images for one in answered) / seconds,
        everything=_latencies(answered),
        text_only=_latencies([one for one in answered if not one.images]),
        with_images=_latencies([one for one in answered if one.images]),
        first_token_by_turn=_by_turn(answered),
        objectives=[
            ObjectiveResult(
                objective=name,
                target_seconds=target,
                share=_share(sum(_keeps(one, name, target) for one in answered), len(counted)),
            )
            for name, target in targets.items()
        ],
        goodput_share=_share(len(good), len(counted)) if targets else None,
        goodput_per_second=len(good) / seconds if targets else None,
        send_lag_p99_seconds=nearest_rank(sorted(lags), 0.99) if lags else 0.0,
    )


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """Return the smallest measurement that `share` of them are not above."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return the distribution of some seconds, or None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    ranks = {name: nearest_rank(ordered, int(name[1:]) / 100) for name in ("p50", "p90", "p95")}
    return Percentiles(
        count=len(ordered),
        mean=sum(ordered) / len(ordered),
        p99=nearest_rank(ordered, 0.99),
        max=ordered[-1],
        **ranks,
    )


def _latencies(answered: Sequence[Result]) -> Latencies:
    first = [one.time_to_first_token for one in answered if one.time_to_first_token is not None]
    return Latencies(
        time_to_first_token=percentiles(first),
        inter_token=percentiles(list(chain.from_iterable(one.gaps for one in answered))),
        end_to_end=percentiles([one.end_to_end for one in answered]),
    )


def _by_turn(answered: Sequence[Result]) -> list[Percentiles]:
    """Return the time to the first token of each turn; nothing where all are first ones."""
    most = max((one.turn for one in answered), default=1)
    turns = range(1, most + 1) if most > 1 else ()
    measured = ([one.time_to_first_token for one in answered if one.turn == turn] for turn in turns)
    return [
        found
        for values in measured
        if (found := percentiles([value for value in values if value is not None]))
    ]


def _keeps(result: Result, objective: str, target: float) -> bool:
    value = _MEASURES[objective](result)
    return value is not None and value <= target


def _share(part: int, total: int) -> float:
    return part / total if total else 0.0
