"""The figures of a comparison as text, with a verdict."""

from collections.abc import Iterator

from mm_api.documents.evaluation import EvaluationReport

_WIDTH = 18


def as_page(name: str, report: EvaluationReport) -> str:
    """Return the page; `name` is namespace/model."""
    return "\n".join(_lines(name, report))


def _lines(name: str, report: EvaluationReport) -> Iterator[str]:
    figures = report.reference
    dtype = figures.dtype if figures else "?"
    verdict = "agrees with" if report.first_difference is None else "differs from"
    yield f"{name} {verdict} its checkpoint (transformers, {dtype})"
    agreeing = report.prompts - report.failed_prompts
    ties = f", {report.near_ties} part where two tokens are nearly tied" if report.near_ties else ""
    yield _row("Prompts", f"{agreeing} of {report.prompts} agree{ties}")
    yield _row("Tokens", f"{report.agreed} of {report.tokens} compared are equal")
    if figures is None:
        return
    first = figures.first_differing_token
    yield _row("First difference", f"token {first} of an answer" if first else "none")
    if report.log_prob_distance is None:
        yield _row("Log probabilities", "the server returns none")
    else:
        mean = figures.mean_log_prob_distance or 0.0
        yield _row(
            "Log probabilities",
            f"mean {mean:.5f}, largest {report.log_prob_distance:.3f} standard deviations of the "
            "checkpoint's logits",
        )
    yield _row("Threshold", f"{figures.bound:.2f} of them, by what the engine computes in")
    if problem := report.problem:
        yield f"  {problem}"


def _row(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}} {text}"
