"""A report as a page for people."""

from collections.abc import Iterator

from mm_lab.loadtest.report import BenchReport, Latencies, Percentiles

_COLUMNS = ("p50", "p90", "p95", "p99", "max", "mean")


def as_table(report: BenchReport) -> str:
    """Return the page."""
    return "\n".join(_lines(report))


def _lines(report: BenchReport) -> Iterator[str]:
    yield f"{report.model} at {report.endpoint}: {report.load}, {report.seconds:.0f} s measured"
    yield ""
    yield f"  {'requests':<24}{report.requests} due, {report.answered} answered"
    yield (
        f"  {'per second':<24}{report.offered_per_second:.2f} due, "
        f"{report.answered_per_second:.2f} answered"
    )
    yield (
        f"  {'tokens per second':<24}{report.output_tokens_per_second:.1f} generated, "
        f"{report.prompt_tokens_per_second:.1f} of prompts"
    )
    yield f"  {'images per second':<24}{report.images_per_second:.2f}"
    yield f"  {'send lag p99':<24}{_seconds(report.send_lag_p99_seconds).strip()}"
    for kind, count in report.errors.items():
        yield f"  {'failed: ' + kind:<24}{count}"
    yield ""
    yield f"  {'':<28}" + "".join(f"{name:>10}" for name in _COLUMNS)
    yield from _rows("", report.everything)
    if report.text_only.end_to_end and report.with_images.end_to_end:
        yield from _rows("text only: ", report.text_only)
        yield from _rows("images: ", report.with_images)
    for turn, values in enumerate(report.first_token_by_turn, 1):
        cells = "".join(_seconds(part) for part in _parts(values))
        yield f"  {f'first token, turn {turn}':<28}{cells}"
    if report.objectives:
        yield ""
        for kept in report.objectives:
            wanted = f"{kept.objective} within {_seconds(kept.target_seconds).strip()}"
            yield f"  {wanted:<28}{kept.share:>10.2%} of all requests"
        yield (
            f"  {'goodput':<28}{report.goodput_share:>10.2%} of all requests, "
            f"{report.goodput_per_second:.2f} per second"
        )


def _rows(prefix: str, latencies: Latencies) -> Iterator[str]:
    for name, values in (
        ("first token", latencies.time_to_first_token),
        ("between tokens", latencies.inter_token),
        ("end to end", latencies.end_to_end),
    ):
        if values is not None:
            yield f"  {prefix + name:<28}" + "".join(_seconds(part) for part in _parts(values))


def _parts(values: Percentiles) -> tuple[float, ...]:
    return tuple(float(getattr(values, column)) for column in _COLUMNS)


def _seconds(value: float) -> str:
    return f"{value * 1000:>7.1f} ms" if value < 1 else f"{value:>8.2f} s"
