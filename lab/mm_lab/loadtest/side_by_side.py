"""Two endpoints under the same load at the same time: ratios with confidence intervals. Pure."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mm_lab.loadtest.report import BenchReport, nearest_rank
from mm_lab.loadtest.results import Result

RESAMPLES = 1000
MOST = 2000
"""Results that are drawn from: more make the interval no narrower than it can be read."""

_EDGE = 0.025
"""Share outside 95 %, on each side."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The second endpoint's value over the first one's."""

    name: str
    first: float
    second: float
    low: float
    high: float
    """Ends of the 95 % interval of the ratio, by percentiles of resampled requests."""

    @property
    def value(self) -> float:
        """The ratio; 0 where the first has none."""
        return self.second / self.first if self.first else 0.0


def ratios(first: Sequence[Result], second: Sequence[Result], seed: int = 1) -> Iterator[Ratio]:
    """Yield what differs, of answered requests; a latency that one of them lacks is left out."""
    for name, measure in (
        ("first token", lambda one: one.time_to_first_token),
        ("end to end", lambda one: one.end_to_end),
    ):
        one, other = _measured(first, measure), _measured(second, measure)
        if not one or not other:
            continue
        for share in (0.5, 0.95):
            yield _ratio(f"{name} p{share * 100:.0f}", one, other, share, seed)


def _measured(results: Sequence[Result], measure: Callable[[Result], float | None]) -> list[float]:
    values = (measure(one) for one in results if not one.error)
    return [value for value in values if value is not None]


def _ratio(
    name: str, first: Sequence[float], second: Sequence[float], share: float, seed: int
) -> Ratio:
    source = random.Random(seed)  # noqa: S311  # no secrets
    some = [
        values if len(values) <= MOST else source.sample(values, MOST)
        for values in (list(first), list(second))
    ]

    def drawn(values: list[float]) -> float:
        return nearest_rank(sorted(source.choices(values, k=len(values))), share)

    found = sorted(drawn(some[1]) / max(drawn(some[0]), 1e-9) for _ in range(RESAMPLES))
    return Ratio(
        name,
        nearest_rank(sorted(first), share),
        nearest_rank(sorted(second), share),
        nearest_rank(found, _EDGE),
        nearest_rank(found, 1 - _EDGE),
    )


def as_lines(reports: Sequence[BenchReport], found: Sequence[Ratio]) -> list[str]:
    """Return the table of both endpoints, A and B."""
    names = [
        f"{letter}: {one.model} at {one.endpoint}"
        for letter, one in zip("AB", reports, strict=True)
    ]
    rows = [f"  {'':<24}{'A':>12}{'B':>12}{'B / A':>9}  95 % interval"]
    for label, values in (
        ("answered", [float(one.answered) for one in reports]),
        ("failed", [float(one.requests - one.answered) for one in reports]),
        ("answers per second", [one.answered_per_second for one in reports]),
        ("tokens per second", [one.output_tokens_per_second for one in reports]),
    ):
        rows.append(f"  {label:<24}" + "".join(f"{value:>12.1f}" for value in values))
    rows += [
        f"  {one.name:<24}{one.first * 1000:>9.1f} ms{one.second * 1000:>9.1f} ms{one.value:>9.3f}"
        f"  {one.low:.3f} to {one.high:.3f}"
        for one in found
    ]
    return [*names, reports[0].load, "", *rows]
