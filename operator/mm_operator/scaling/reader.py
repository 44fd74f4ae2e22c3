"""One tick's questions to one Prometheus, and their answers by pod."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from mm_operator.scaling.answers import read_vector
from mm_operator.scaling.prometheus import Prometheus, chunks
from mm_operator.scaling.queries import (
    encoder_query,
    latency_queries,
    matchers,
    traffic_query,
)
from mm_operator.scaling.traffic import Address, PodSeries, by_pod

Answers = Mapping[Address, PodSeries]


async def read_all(
    client: Prometheus, pods: Iterable[Address], metrics: Sequence[str], *, encoders: bool = False
) -> Answers:
    """Return what a Prometheus knows of some pods; `encoders`: some of them are.

    One that answers but knows nothing, as after a restart, puts the next one first.

    Raises:
        MetricsError: no usable answer.
    """
    found: dict[Address, PodSeries] = {}
    for some in chunks(sorted(set(pods))):
        found |= await _read_some(client, some, metrics, encoders=encoders)
    if not found:
        client.prefer_another()
    return found


async def _read_some(
    client: Prometheus, pods: Sequence[Address], metrics: Sequence[str], *, encoders: bool
) -> Answers:
    scope = matchers(pods, dict(client.endpoint.match_labels))
    latencies = latency_queries(scope, metrics)
    texts = [*latencies.values(), traffic_query(scope), *([encoder_query(scope)] * encoders)]
    answers = await asyncio.gather(*(client.query(text, len(pods)) for text in texts))
    found = await asyncio.to_thread(lambda: [read_vector(one) for one in answers])
    buckets = dict(zip(latencies, found, strict=False))
    requested, series = set(pods), by_pod(chain(*found[len(latencies) :]), buckets)
    return {pod: one for pod, one in series.items() if pod in requested}
