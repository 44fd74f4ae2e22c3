"""One tick's questions to one Prometheus, and their answers by pod."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from mm_operator.cluster.keys import Key
from mm_operator.scaling.answers import read_number, read_vector
from mm_operator.scaling.prometheus import Prometheus
from mm_operator.scaling.queries import custom_query, latency_queries, matchers, traffic_query
from mm_operator.scaling.traffic import Address, PodSeries, by_pod

Answers = Mapping[Address, PodSeries]


async def read_all(client: Prometheus, pods: Iterable[Address], metrics: Sequence[str]) -> Answers:
    """Return what a Prometheus knows of some pods.

    One that answers but knows nothing, as after a restart, makes the next one be asked first.

    Raises:
        MetricsError: no usable answer.
    """
    scope = matchers(pods, dict(client.endpoint.match_labels))
    latencies = latency_queries(scope, metrics)
    answers = await asyncio.gather(
        *(client.query(text) for text in (traffic_query(scope), *latencies.values()))
    )
    traffic, *buckets = await asyncio.to_thread(lambda: [read_vector(one) for one in answers])
    if not traffic:
        client.prefer_another()
    return by_pod(traffic, dict(zip(latencies, buckets, strict=True)))


async def read_custom(client: Prometheus, template: str, key: Key) -> float:
    """Return the number of replicas that a model's own query asks for.

    Raises:
        MetricsError: no answer, or none that is a number of replicas.
    """
    return read_number(await client.query(custom_query(template, key.namespace, key.name)))
