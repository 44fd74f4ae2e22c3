"""One tick's questions to one Prometheus, and their answers by pod."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from mm_operator.cluster.keys import Key
from mm_operator.scaling.answers import MetricsError, read_number, read_vector
from mm_operator.scaling.limits import chunks
from mm_operator.scaling.prometheus import Prometheus
from mm_operator.scaling.queries import custom_query, latency_queries, matchers, traffic_query
from mm_operator.scaling.traffic import Address, PodSeries, by_pod

Answers = Mapping[Address, PodSeries]


async def read_all(client: Prometheus, pods: Iterable[Address], metrics: Sequence[str]) -> Answers:
    """Return what a Prometheus knows of some pods.

    One that answers but knows nothing, as after a restart, puts the next one first.

    Raises:
        MetricsError: no usable answer.
    """
    found: dict[Address, PodSeries] = {}
    for some in chunks(sorted(set(pods))):
        found |= await _read_some(client, some, metrics)
    if not found:
        client.prefer_another()
    return found


async def _read_some(
    client: Prometheus, pods: Sequence[Address], metrics: Sequence[str]
) -> Answers:
    scope = matchers(pods, dict(client.endpoint.match_labels))
    latencies = latency_queries(scope, metrics)
    answers = await asyncio.gather(
        *(client.query(text, len(pods)) for text in (traffic_query(scope), *latencies.values()))
    )
    traffic, *buckets = await asyncio.to_thread(lambda: [read_vector(one) for one in answers])
    requested, series = set(pods), by_pod(traffic, dict(zip(latencies, buckets, strict=True)))
    return {pod: one for pod, one in series.items() if pod in requested}


async def read_custom(client: Prometheus, template: str, key: Key, *, of_spec: bool) -> float:
    """Return the number of replicas that a model's own query returns.

    `of_spec`: the spec names this Prometheus, which is sent no credentials.

    The operator's own credentials are not for queries of a spec: they may read every namespace.

    Raises:
        MetricsError: it is not queried, or has no answer that is a number of replicas.
    """
    endpoint = client.endpoint
    if not of_spec and endpoint.has_credentials:
        raise MetricsError(
            "customQuery is not sent to the operator's own Prometheus, which the operator reads "
            "with credentials of its own: set autoscaling.prometheus to one that needs none, or "
            "remove customQuery"
        )
    return read_number(await client.query(custom_query(template, key.namespace, key.name)))
