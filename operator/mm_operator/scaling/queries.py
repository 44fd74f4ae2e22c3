"""The PromQL of one tick: a few queries for all models that share a Prometheus. Pure.

Everything is queried per pod and by its name, because only the operator knows which pods are a
model's and Ready: series of another cluster are no pod of ours. `max by`
instead of `sum by` makes a pod that two jobs scrape count once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mm_api.metrics import OBJECTIVE_HISTOGRAMS
from mm_operator.autoscaling.observation import (
    FAST_WINDOW_SECONDS,
    OUTPUT_WINDOW_SECONDS,
    STEADY_WINDOW_SECONDS,
)
from mm_operator.children.scaled_object import matcher
from mm_operator.scaling.costs import WORK_UNITS

PART = "mm_part"
"""Label that says which part of a combined query a sample answers."""

_FAST = f"{FAST_WINDOW_SECONDS:.0f}s"
_STEADY = f"{STEADY_WINDOW_SECONDS:.0f}s"
_OUTPUT = f"{OUTPUT_WINDOW_SECONDS:.0f}s"

WINDOWS: Mapping[str, str] = {"fast": _FAST, "steady": _STEADY}

NEWEST = "newest"
"""Part of what lies between a pod's last two samples, whenever the scrapes were."""

COUNTERS: Mapping[str, tuple[str, str]] = {
    "accepted": ("mm_requests_accepted_total", ""),
    "image_tokens": ("mm_image_tokens_total", ""),
    "prompt_tokens": ("mm_prompt_tokens_total", ""),
    "refused": ("mm_requests_rejected_total", 'reason="queue_full"'),
}
"""Part of the query's answer -> counter of the gateway and a matcher of its own."""

ENCODER_COUNTERS: Mapping[str, tuple[str, str]] = {
    "encoded": ("mm_encoder_batch_requests_sum", ""),
    "encoder_busy": ("mm_encoder_busy_seconds_total", ""),
}
"""The same of encoders in pods of their own."""


def matchers(pods: Iterable[tuple[str, str]], match_labels: Mapping[str, str]) -> str:
    """Return the label matchers that every selector carries.

    Names of pods and namespaces hold no character that a regular expression gives a meaning but
    the dot, and an alternative of plain names is a set of them for Prometheus' index.
    """
    addresses = sorted(set(pods))
    namespaces = sorted({namespace for namespace, _ in addresses})
    names = sorted({name.replace(".", "[.]") for _, name in addresses})
    return ",".join(
        [
            f'namespace=~"{"|".join(namespaces)}"',
            f'pod=~"{"|".join(names)}"',
            *(matcher(name, value) for name, value in sorted(match_labels.items())),
        ]
    )


def traffic_query(scope: str) -> str:
    """Return the query for everything but latencies."""
    finished = _selector(scope, 'code="200"')
    parts = [
        *_rates(scope, COUNTERS),
        _part("output", f"increase(mm_output_tokens_total{_selector(scope)}[{_OUTPUT}])"),
        _part("finished", f"increase(mm_requests_total{finished}[{_OUTPUT}])"),
        _part(f"finished_{NEWEST}", f"irate(mm_requests_total{finished}[{_FAST}])"),
        _part("running", f"avg_over_time(mm_requests_running{_selector(scope)}[{_FAST}])"),
        _part("waiting", f"avg_over_time(mm_requests_waiting{_selector(scope)}[{_FAST}])"),
        *(
            _part(f"work_{unit}", "mm_work_seconds" + _selector(scope, f'unit="{unit}"'))
            for unit in WORK_UNITS
        ),
        *_sampled(f"mm_requests_running{_selector(scope)}"),
    ]
    return "\nor ".join(parts)


def encoder_query(scope: str) -> str:
    """Return the query for encoders in pods of their own, and for images that came to servers."""
    encoding = "mm_server_executing_requests" + _selector(scope, 'stage="encoding"')
    parts = [
        *_rates(scope, ENCODER_COUNTERS),
        _part("busy", f"increase(mm_encoder_busy_seconds_total{_selector(scope)}[{_OUTPUT}])"),
        _part("image_tokens", f"increase(mm_image_tokens_total{_selector(scope)}[{_OUTPUT}])"),
        _part("encoding", f"avg_over_time({encoding}[{_FAST}])"),
        *_sampled(encoding),
    ]
    return "\nor ".join(parts)


def _rates(scope: str, counters: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, (metric, own) in counters.items():
        counted = f"{metric}{_selector(scope, own)}"
        for window, length in WINDOWS.items():
            yield _part(f"{name}_{window}", f"rate({counted}[{length}])")
        yield _part(f"{name}_{NEWEST}", f"irate({counted}[{_FAST}])")


def _sampled(gauge: str) -> Iterator[str]:
    # Prometheus' own clock on both sides: a skew against ours makes no series old.
    yield _part("sampled_at", f"timestamp({gauge})")
    yield _part("now", f"0 * timestamp({gauge}) + time()")


def latency_queries(scope: str, metrics: Sequence[str]) -> dict[str, str]:
    """Return a query for each part, by its name: the buckets of one latency over one window.

    Not one query with all of them: Prometheus evaluates a query on one core, and a label on each
    of 160,000 samples (1,000 models) costs it as much as their rates.
    """
    return {
        f"{metric}_{window}": (
            "max by (namespace, pod, le) "
            f"(increase({OBJECTIVE_HISTOGRAMS[metric]}_bucket{_selector(scope)}[{length}]))"
        )
        for metric in metrics
        for window, length in WINDOWS.items()
    }


def _part(name: str, expression: str) -> str:
    return f'label_replace(max by (namespace, pod) ({expression}), "{PART}", "{name}", "", "")'


def _selector(scope: str, own: str = "") -> str:
    return "{" + ",".join(filter(None, (scope, own))) + "}"
