"""A model as numbers for Prometheus: which of its states, replicas and objectives are true now?

Reads spec and status as the API server holds them: what is absent or not a number is left out, so
an object that another version wrote never breaks a scrape.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.utils import floatToGoString

from mm_api.metrics import GATEWAY_METRICS, OBJECTIVE_HISTOGRAMS
from mm_api.v1alpha1 import duration

_BUCKETS = {metric.name: metric.buckets for metric in GATEWAY_METRICS}


class Sample(NamedTuple):
    """One value of a metric of `mm_api.metrics` that has a model's labels."""

    metric: str
    labels: tuple[str, ...]
    value: float


def samples_of(
    namespace: str, name: str, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Iterator[Sample]:
    """Yield every sample of one model."""
    model = (namespace, name)
    for condition in status.get("conditions") or ():
        labels = (*model, str(condition.get("type")), str(condition.get("reason")))
        yield Sample("mm_model_condition", labels, float(condition.get("status") == "True"))
    autoscaling = spec.get("autoscaling") or {}
    replicas = {
        "desired": spec.get("replicas"),
        "ready": status.get("readyReplicas", 0),
        "min": autoscaling.get("minReplicas"),
        "max": autoscaling.get("maxReplicas"),
    }
    for product, held in _gpus(spec, status).items():
        yield Sample("mm_model_gpus", (*model, product), held)
    yield from _counts("mm_model_replicas", model, replicas)
    if encoders := status.get("encoders"):
        desired = (encoders.get("scaling") or {}).get("desired")
        states = {"ready": encoders.get("readyReplicas"), "desired": desired}
        yield from _counts("mm_model_encoders", model, states)
    for objective in autoscaling.get("objectives") or ():
        yield from _objective(model, objective)


def _gpus(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Counter[str]:
    """Return how many GPUs of each product the pods hold; an encoder's pod holds one, or none."""
    plan, encoders = status.get("plan") or {}, status.get("encoders") or {}
    planned = (plan.get("gpu") or {}).get("product")
    own = (spec.get("vision") or {}).get("gpu") or {}
    held = Counter({planned: (status.get("replicas") or 0) * len(plan.get("gpuMemory") or ())})
    held[own.get("product", planned)] += encoders.get("replicas", 0) * own.get("count", 1)
    return Counter({str(product): number for product, number in held.items() if product})


def _counts(metric: str, model: tuple[str, str], states: Mapping[str, object]) -> Iterator[Sample]:
    for state, number in states.items():
        if isinstance(number, int):
            yield Sample(metric, (*model, state), number)


def _objective(model: tuple[str, str], objective: Mapping[str, Any]) -> Iterator[Sample]:
    kind = str(objective.get("metric"))
    try:
        seconds = duration.parse(str(objective.get("target"))).total_seconds()
        ratio = float(objective["percentile"]) / 100
    except (ValueError, TypeError, KeyError):
        return
    if kind in OBJECTIVE_HISTOGRAMS:
        bucket = bucket_at(OBJECTIVE_HISTOGRAMS[kind], seconds)
        yield Sample("mm_model_objective_seconds", (*model, kind, bucket), seconds)
        yield Sample("mm_model_objective_ratio", (*model, kind), ratio)


def bucket_at(histogram: str, seconds: float) -> str:
    """Return the `le` of the largest bucket up to a latency, as Prometheus clients write it.

    Between two buckets the lower one counts: attainment is never reported better than it is. Below
    the smallest bucket it is the smallest: the histogram has nothing finer.
    """
    buckets = _BUCKETS[histogram]
    fitting = [bucket for bucket in buckets if bucket <= seconds] or buckets[:1]
    text: str = floatToGoString(fitting[-1])  # type: ignore[no-untyped-call]  # the library's
    return text
