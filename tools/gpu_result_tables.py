"""What sections of docs/design/gpu-results.md have in common: tables, and whether a goal is met."""

from collections.abc import Iterator


def table(head: list[str], rows: list[list[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def verdict(met: bool, goal: str) -> str:  # noqa: FBT001 - reads as a sentence
    """Return whether a goal is met, in bold where it is not."""
    return f"goal {goal}: {'met' if met else '**missed**'}"
