"""What processes hold over hours, and whether it grows: samples from /proc, and a fitted line."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from processes import Process, below, memory_bytes

_MIB = 1 << 20
_LAG = 30
"""Samples over which residuals may depend on each other: five minutes."""
_MOST_MISSING = 0.02
BOUNDS = {
    "pss_mib": 2.0,
    "rss_mib": 4.0,
    "file_descriptors": 2.0,
    "threads": 1.0,
    "python_blocks": 20_000.0,
    "metric_series": 6.0,
    "objects": 6.0,
}
"""Most that each may grow in an hour. Chosen: 2 MiB are 48 a day, 5 % of the smallest limit of a
container (1 GiB); a block of Python's has some 100 bytes. RSS counts pages of files as well."""


@dataclass
class Series:
    """Samples of one number; `at` in seconds since the start."""

    at: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, at: float, value: float) -> None:
        """Append a sample."""
        self.at.append(at)
        self.values.append(value)


class Sampler:
    """Samples processes and what is below them.

    Args:
        roots: name -> process id; processes below have the name of their program or role as well.
        counts: where processes write what Python holds.
    """

    def __init__(self, roots: Mapping[str, int], counts: Path) -> None:
        self._roots = roots
        self._counts = counts
        self._names: dict[int, str] = {}
        self.series: dict[tuple[str, str], Series] = {}
        """(process, measure) -> its samples."""
        self.moments: list[float] = []

    def look(self, at: float) -> None:
        """Take one sample of each process; what has ended meanwhile is left out."""
        self.moments.append(at)
        for root, pid in self._roots.items():
            found: dict[str, float] = {}
            for one in below(pid):
                with suppress(FileNotFoundError, ProcessLookupError):
                    for measure, value in self._measured(one.pid).items():
                        self.add(self._name(root, one), measure, at, value)
                        found[measure] = found.get(measure, 0.0) + value
            for measure, value in found.items():
                self.add(f"{root} and all below", measure, at, value)

    def add(self, name: str, measure: str, at: float, value: float) -> None:
        """Add a sample."""
        self.series.setdefault((name, measure), Series()).add(at, value)

    def _name(self, root: str, one: Process) -> str:
        if one.pid == self._roots[root]:
            return root
        if one.pid not in self._names:
            same = f"{root}/{one.name}"
            number = sum(name.startswith(same) for name in self._names.values())
            self._names[one.pid] = f"{same}-{number + 1}" if number else same
        return self._names[one.pid]

    def _measured(self, pid: int) -> dict[str, float]:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        found = {
            "pss_mib": memory_bytes(pid) / _MIB,
            "rss_mib": int(fields["VmRSS"].split()[0]) / 1024,
            "file_descriptors": float(sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())),
            "threads": float(fields["Threads"]),
        }
        with suppress(FileNotFoundError):
            found["python_blocks"] = float((self._counts / str(pid)).read_text())
        return found

    def fitted(self, warm_up_seconds: float) -> dict[str, dict[str, Any]]:
        """Return the lines of what was there during the entire measurement, by process."""
        looks = sum(at >= warm_up_seconds for at in self.moments)
        found: dict[str, dict[str, Any]] = {}
        for (name, measure), series in sorted(self.series.items()):
            first = next((n for n, at in enumerate(series.at) if at >= warm_up_seconds), 0)
            sampled = len(series.at) - first
            if measure != "objects" and sampled < looks * (1 - _MOST_MISSING):
                continue
            line = fit(series.at[first:], series.values[first:])
            found.setdefault(name, {})[measure] = {"start": round(series.values[0], 1), **line}
        return found


def fit(seconds: Sequence[float], values: Sequence[float]) -> dict[str, float]:
    """Return first and last value, growth an hour, and half of the width of its 95 % interval.

    Least squares; the error is Newey and West's, as one sample is like that before it.
    """
    hours, held = np.array(seconds) / 3600, np.array(values)
    design = np.column_stack([np.ones_like(hours), hours - hours.mean()])
    inverse = np.linalg.inv(design.T @ design)
    solution = inverse @ design.T @ held
    scores = design * (held - design @ solution)[:, None]
    middle = scores.T @ scores
    for lag in range(1, min(_LAG, len(held) - 1) + 1):
        pairs = scores[lag:].T @ scores[:-lag]
        middle += (1 - lag / (_LAG + 1)) * (pairs + pairs.T)
    error = float(np.sqrt(max((inverse @ middle @ inverse)[1, 1], 0.0)))
    half = len(held) // 2
    return {
        "settled": round(float(held[0]), 1),
        "end": round(float(held[-1]), 1),
        "per_hour": round(float(solution[1]), 2),
        "plus_or_minus": round(1.96 * error, 2),
        "per_hour_in_second_half": round(float(np.polyfit(hours[half:], held[half:], 1)[0]), 2),
    }


def growing(
    lines: Mapping[str, Mapping[str, Mapping[str, float]]], *, surely: bool = True
) -> list[str]:
    """Return what grows by more than its bound: surely, or within the 95 % interval only."""
    return [
        f"{name}: {measure} grows by {line['per_hour']} +- {line['plus_or_minus']} an hour,"
        f" the bound is {BOUNDS[measure]:g}"
        for name, measures in lines.items()
        for measure, line in measures.items()
        if line["per_hour"] > BOUNDS[measure]
        and surely == (line["per_hour"] - line["plus_or_minus"] > BOUNDS[measure])
    ]
