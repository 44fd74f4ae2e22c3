"""From samples per pod to what the policy sees of one model's traffic. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mm_api.contract import METRICS_PORT
from mm_operator.autoscaling import LatencyObjective, RequestRate, Traffic
from mm_operator.scaling.answers import MetricsError, Sample
from mm_operator.scaling.costs import WORK_UNITS, Measured, measured
from mm_operator.scaling.pods import ScaledPod
from mm_operator.scaling.queries import NEWEST, PART, WINDOWS

STALE_SECONDS = 90.0
"""A sample older than this says nothing: three scrapes of 30 s were missed."""

SETTLED_SECONDS = 90.0
"""A pod that is Ready for less may have no rates yet: those need two scrapes."""

ENOUGH_OBSERVATIONS = 20
"""Below this the 95th percentile is the slowest request; then the longer window is read."""

_LEAST_COVERED = 0.5
"""With metrics of fewer of the pods the rest is a guess."""

Address = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass(slots=True)
class PodSeries:
    """What Prometheus knows of one pod."""

    values: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(default_factory=lambda: defaultdict(dict))


def by_pod(
    samples: Iterable[Sample], buckets: Mapping[str, Iterable[Sample]]
) -> dict[Address, PodSeries]:
    """Return samples by pod; those of no pod, and buckets without a bound, are left out.

    Args:
        samples: of the combined query; a label says which part each answers.
        buckets: of the latencies, by part.

    Raises:
        MetricsError: labels are not what Prometheus calls labels.
    """
    found: dict[Address, PodSeries] = defaultdict(PodSeries)
    try:
        for sample in samples:
            part, pod = sample.labels.get(PART), sample.labels.get("pod")
            if part and pod:
                found[sample.labels.get("namespace", ""), pod].values[part] = sample.value
        for part, many in buckets.items():
            for sample in many:
                pod, bound = sample.labels.get("pod"), _bound(sample.labels.get("le"))
                if pod and bound is not None:
                    series = found[sample.labels.get("namespace", ""), pod]
                    series.buckets[part][bound] = sample.value
    except (AttributeError, TypeError) as error:  # once for all: there are 160,000 samples
        raise MetricsError("Prometheus answered series whose labels are not texts") from error
    return found


def _bound(text: str | None) -> float | None:
    try:
        bound = float(text or "nan")
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


@dataclass(frozen=True, slots=True)
class Reading:
    """The traffic of one model, or in one sentence why it is unknown."""

    traffic: Traffic | None
    problem: str = ""
    attainment: Mapping[str, float] = field(default_factory=dict)
    """Share of requests within the target, by the objective's name."""
    costs: Measured = field(default_factory=Measured)
    """What work takes of a replica, as the pods measured it at their start."""


def read_traffic(
    *,
    namespace: str,
    pods: Sequence[ScaledPod],
    former: Iterable[str],
    series: Mapping[Address, PodSeries],
    objectives: Sequence[LatencyObjective],
    now: float,
    encoded_elsewhere: bool = False,
) -> Reading:
    """Return what the pods of one model saw.

    Args:
        namespace: of the model.
        pods: the serving pods there are.
        former: names of pods that went within the longest window: what came to them came.
        series: the answers of this tick.
        objectives: which percentiles are needed.
        now: Unix seconds.
        encoded_elsewhere: requests whose images are with encoders take no slot.
    """
    ready = [pod for pod in pods if pod.ready and not pod.terminating]
    fresh = [pod for pod in ready if _is_fresh(series.get((namespace, pod.name)))]
    settled = [pod for pod in ready if now - (pod.ready_at or now) > SETTLED_SECONDS]
    missing = sum(pod not in fresh for pod in settled)
    if ready and (not fresh or missing > _LEAST_COVERED * len(settled)):
        return Reading(None, _what_is_missing(series, namespace, ready, fresh, settled))
    served = [_with_fast(series[namespace, pod.name]) for pod in fresh]
    others = ({pod.name for pod in pods} | set(former)) - {pod.name for pod in fresh}
    known = [*served, *(one for name in others if (one := series.get((namespace, name))))]
    # Pods of which nothing is known get as much as the others: a Service spreads evenly.
    factor = (len(fresh) + missing) / len(fresh) if fresh else 1.0
    values, attainment = _latencies(served, objectives)
    inside = _sum(served, "running") + _sum(served, "waiting")
    encoding = _sum(served, "encoding") if encoded_elsewhere else 0.0
    return Reading(
        Traffic(
            fast=_request_rate(known, "fast", factor),
            steady=_request_rate(known, "steady", factor),
            mean_output_tokens=_mean_output(known),
            in_flight=factor * max(0.0, inside - encoding),
            latencies=values,
            newest=_newest(known, factor),
            running=factor * _sum(served, "running"),
            completed=_completed(served, factor),
        ),
        attainment=attainment,
        costs=_costs(served),
    )


_BUSY = 0.9
"""From this share of their time on encoders are taken to work without a pause: more may arrive than
they encode, and what they encode of it says no cost."""


def read_encoders(
    *,
    namespace: str,
    pods: Sequence[ScaledPod],
    former: Iterable[str],
    servers: Iterable[str],
    series: Mapping[Address, PodSeries],
) -> Reading:
    """Return the image work of one model: what arrives at its servers, and what its encoders do.

    What is refused counts as the mean of what is not. `former`: as in `read_traffic`. `servers`:
    names of the pods that images come to.
    """
    ready = {pod.name for pod in pods if pod.ready and not pod.terminating}
    known = {name: one for name in former if (one := series.get((namespace, name)))}
    encoding = [one for name, one in known.items() if name in ready and _is_scraped(one)]
    if ready and not encoding:
        return Reading(
            None,
            "Prometheus has no fresh series of the encoders: it must scrape port "
            f"{METRICS_PORT} of their pods and keep the labels namespace and pod",
        )
    sent = [_with_fast(one) for name in servers if (one := series.get((namespace, name)))]
    factor = len(ready) / len(encoding) if encoding else 1.0
    tokens, seconds = _sum(sent, "image_tokens"), _sum(known.values(), "busy")
    shares = [_sum(encoding, f"encoder_busy_{window}") for window in WINDOWS]
    measures = tokens > 0 and seconds > 0 and max(shares) < _BUSY * len(encoding)
    fast, steady, newest = (
        _image_rate(sent, known.values(), window) for window in (*WINDOWS, NEWEST)
    )
    return Reading(
        Traffic(
            fast=fast,
            steady=steady,
            mean_output_tokens=None,
            in_flight=factor * _sum(encoding, "encoding"),
            newest=newest,
            completed=newest.requests,
        ),
        costs=Measured({"image_token": seconds / tokens} if measures else {}),
    )


def _image_rate(
    sent: Sequence[PodSeries], encoders: Iterable[PodSeries], window: str
) -> RequestRate:
    accepted, refused = (_sum(sent, f"{name}_{window}") for name in ("accepted", "refused"))
    tokens = _sum(sent, f"image_tokens_{window}")
    return RequestRate(
        requests=_sum(encoders, f"encoded_{window}"),
        image_tokens=tokens * (1 + refused / accepted) if accepted else tokens,
        text_tokens=0.0,
    )


def _costs(served: Sequence[PodSeries]) -> Measured:
    return measured(
        [
            {
                unit: value
                for unit in WORK_UNITS
                if (value := one.values.get(f"work_{unit}")) is not None
            }
            for one in served
        ]
    )


def _is_fresh(series: PodSeries | None) -> bool:
    return series is not None and _is_scraped(series) and "accepted_steady" in series.values


def _is_scraped(series: PodSeries) -> bool:
    sampled, now = series.values.get("sampled_at"), series.values.get("now")
    return sampled is not None and now is not None and now - sampled <= STALE_SECONDS


def _with_fast(series: PodSeries) -> PodSeries:
    """Return a pod whose fast rates are known: the steady ones, where a minute has no two scrapes.

    A Prometheus that scrapes each minute, its own default, has no rate over a minute.
    """
    if "accepted_fast" in series.values:
        return series
    steady = {
        part.replace("_steady", "_fast"): value
        for part, value in series.values.items()
        if part.endswith("_steady")
    }
    return PodSeries(series.values | steady, series.buckets)


def _what_is_missing(
    series: Mapping[Address, PodSeries],
    namespace: str,
    ready: Sequence[ScaledPod],
    fresh: Sequence[ScaledPod],
    settled: Sequence[ScaledPod],
) -> str:
    if not any((namespace, pod.name) in series for pod in ready):
        return (
            "Prometheus has no series of the Ready pods: it must scrape port 8080 of the pods and "
            "keep the labels namespace and pod"
        )
    single = [pod for pod in settled if pod not in fresh]
    if single and all(
        _is_scraped(series.get((namespace, pod.name), PodSeries())) for pod in single
    ):
        return (
            "Prometheus scrapes the pods too seldom for a rate: set the scrape interval to 15 s "
            "(60 s at the most)"
        )
    return (
        f"Prometheus has fresh series of {len(fresh)} of {len(ready)} Ready pods: see its targets "
        "for why scrapes fail"
    )


def _request_rate(known: Sequence[PodSeries], window: str, factor: float) -> RequestRate:
    images = factor * _sum(known, f"image_tokens_{window}")
    prompt = factor * _sum(known, f"prompt_tokens_{window}")
    return RequestRate(
        requests=factor * _sum(known, f"accepted_{window}"),
        image_tokens=images,
        text_tokens=max(0.0, prompt - images),
        refused=factor * _sum(known, f"refused_{window}"),
    )


def _newest(known: Sequence[PodSeries], factor: float) -> RequestRate | None:
    if not any(f"accepted_{NEWEST}" in one.values for one in known):
        return None
    return _request_rate(known, NEWEST, factor)


def _completed(served: Sequence[PodSeries], factor: float) -> float | None:
    part = f"finished_{NEWEST}"
    return factor * _sum(served, part) if any(part in one.values for one in served) else None


def _mean_output(known: Sequence[PodSeries]) -> float | None:
    finished = _sum(known, "finished")
    # increase() extrapolates: less than half a request is none.
    return _sum(known, "output") / finished if finished > 0.5 else None  # noqa: PLR2004


def _latencies(
    served: Sequence[PodSeries], objectives: Sequence[LatencyObjective]
) -> tuple[dict[str, float], dict[str, float]]:
    values: dict[str, float] = {}
    attainment: dict[str, float] = {}
    for objective in objectives:
        fast, steady = (
            summed(one.buckets.get(f"{objective.metric}_{window}", {}) for one in served)
            for window in ("fast", "steady")
        )
        buckets = fast if observations(fast) >= ENOUGH_OBSERVATIONS else steady
        value = percentile(buckets, objective.percentile)
        share = share_within(buckets, objective.target_seconds)
        if value is not None and share is not None:
            values[objective.name] = value
            attainment[objective.name] = share
    return values, attainment


def _sum(many: Iterable[PodSeries], part: str) -> float:
    return sum(one.values.get(part, 0.0) for one in many)


Buckets = Mapping[float, float]
"""Upper bound in seconds (infinity included) -> observations up to it; need not be sorted."""


def summed(many: Iterable[Buckets]) -> dict[float, float]:
    """Return the buckets of several pods as one histogram."""
    total: dict[float, float] = {}
    for one in many:
        for bound, count in one.items():
            total[bound] = total.get(bound, 0.0) + count
    return total


def observations(buckets: Buckets) -> float:
    return max(buckets.values(), default=0.0)


def percentile(buckets: Buckets, percent: float) -> float | None:
    """Return a percentile in seconds, as `histogram_quantile` does; None without observations.

    Linear within a bucket; beyond the last finite bound, that bound.
    """
    steps = _steps(buckets)
    total = steps[-1][1] if steps else 0.0
    if total <= 0:
        return None
    rank = total * percent / 100
    low = below = 0.0
    for bound, count in steps:
        if count >= rank and count > below:
            if math.isinf(bound):
                return low
            return low + (bound - low) * (rank - below) / (count - below)
        low, below = (low if math.isinf(bound) else bound), count
    return low


def share_within(buckets: Buckets, seconds: float) -> float | None:
    """Return the share of observations at or below a latency; None without observations."""
    steps = _steps(buckets)
    total = steps[-1][1] if steps else 0.0
    if total <= 0:
        return None
    low = below = 0.0
    for bound, count in steps:
        if seconds < bound:
            part = 0.0 if math.isinf(bound) else (seconds - low) / (bound - low)
            return (below + (count - below) * part) / total
        low, below = bound, count
    return 1.0


def _steps(buckets: Buckets) -> list[tuple[float, float]]:
    """Return the buckets by bound, counts made monotonous: rates of two scrapes may cross."""
    highest = 0.0
    steps = []
    for bound in sorted(buckets):
        highest = max(highest, buckets[bound])
        steps.append((bound, highest))
    return steps
