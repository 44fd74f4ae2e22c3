"""Every request of a run as a line of a CSV file, for other tools."""

import csv
from collections.abc import Sequence
from pathlib import Path

from mm_lab.loadtest.results import Result

COLUMNS = (
    *("due", "sent", "first_token", "ended", "images", "turn", "prompt_tokens", "output_tokens"),
    "error",
)
"""Times are seconds since the run began; first_token is empty when none came."""


def write_csv(path: Path, results: Sequence[Result]) -> None:
    """Write a new file, in the order in which requests were due.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    with path.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for one in sorted(results, key=lambda result: result.due):
            writer.writerow([_cell(getattr(one, name)) for name in COLUMNS])


def _cell(value: object) -> object:
    return f"{value:.6f}" if isinstance(value, float) else value
