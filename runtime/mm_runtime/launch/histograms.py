"""PURE: histograms in a Prometheus text, from the counters that Triton's Python models publish.

They count each bucket by itself (`mm_runtime.serving.metrics.histograms`); here the counts are
added up, and the type is stated.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable

from mm_api.metrics import Metric

_SAMPLE = re.compile(r"^(?:# (?:HELP|TYPE) )?(?P<name>\w+?)_(?P<ending>bucket|sum)\b(?P<rest>.*)$")
_VALUE = re.compile(r"^(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_BOUND = re.compile(r'(?:^|,)le="(?P<bound>[^"]*)"')


def with_histograms(text: str, metrics: Iterable[Metric]) -> str:
    """Return the text with these metrics as histograms, after everything else."""
    wanted = {metric.name: metric for metric in metrics}
    kept: list[str] = []
    buckets: dict[str, dict[str, dict[float, float]]] = {name: defaultdict(dict) for name in wanted}
    sums: dict[str, dict[str, float]] = {name: {} for name in wanted}
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is None or found["name"] not in wanted:
            kept.append(line)
        elif not line.startswith("#") and (sample := _VALUE.match(found["rest"])):
            name, labels = found["name"], sample["labels"] or ""
            if bound := _BOUND.search(labels):
                others = _BOUND.sub("", labels).lstrip(",")
                buckets[name][others][float(bound["bound"])] = float(sample["value"])
            else:
                sums[name][labels] = float(sample["value"])
    for name, metric in wanted.items():
        if buckets[name]:
            kept += [f"# HELP {name} {metric.help}", f"# TYPE {name} histogram"]
        for labels, counts in buckets[name].items():
            kept += _series(name, labels, counts, sums[name].get(labels, 0.0))
    return "".join(f"{line}\n" for line in kept)


def _series(name: str, labels: str, counts: dict[float, float], total: float) -> list[str]:
    lines, passed = [], 0.0
    before = f"{labels}," if labels else ""
    for bound in sorted(counts):
        passed += counts[bound]
        le = _text(bound)
        lines.append(f'{name}_bucket{{{before}le="{le}"}} {_text(passed)}')
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_count{braces} {_text(passed)}")
    lines.append(f"{name}_sum{braces} {_text(total)}")
    return lines


def _text(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)
