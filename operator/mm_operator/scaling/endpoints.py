"""From `spec.autoscaling.prometheus` to clients, one for each distinct endpoint.

A spec names servers that the administrator lists, and no credentials: what only the operator
reaches, and what it may read, is not for specs.
"""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from mm_api.v1alpha1 import PrometheusSpec
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.prometheus import Endpoint, Prometheus
from mm_operator.scaling.trust import trust


class Endpoints:
    """Clients by endpoint; those that no model uses any more are closed.

    Args:
        own: for models that name no Prometheus.
        allowed_hosts: those that a spec may name, or `*.NAME` for names below one.
    """

    def __init__(self, own: OwnPrometheus, allowed_hosts: Sequence[str] = ()) -> None:
        self._own = own
        self._allowed = tuple(allowed_hosts)
        self._open: dict[Endpoint, Prometheus] = {}

    async def resolve(self, spec: PrometheusSpec | None) -> Endpoint:
        """Return where the metrics of a model are.

        Raises:
            MetricsError: nowhere, at a host that is not listed, or the operator's Secret is
                damaged.
        """
        if spec is None:
            return await self._own.endpoint()
        for address in spec.addresses:
            if not is_listed(address, self._allowed):
                raise MetricsError(
                    f"{address} in autoscaling.prometheus is refused: its host is not in the chart "
                    "value prometheus.allowedHosts; add it there, or remove autoscaling.prometheus "
                    "to read the operator's own"
                )
        labels = tuple(sorted(spec.match_labels.items()))
        return Endpoint(addresses=tuple(spec.addresses), match_labels=labels)

    async def client(self, endpoint: Endpoint) -> Prometheus:
        """Return the client of an endpoint.

        Raises:
            MetricsError: a certificate is damaged.
        """
        if endpoint not in self._open:
            tls = await asyncio.to_thread(trust, endpoint)
            # Another batch of the same tick may have opened it meanwhile.
            if endpoint not in self._open:
                self._open[endpoint] = Prometheus(endpoint, tls)
        return self._open[endpoint]

    async def keep(self, used: set[Endpoint]) -> None:
        for endpoint in [known for known in self._open if known not in used]:
            await self._open.pop(endpoint).close()

    async def close(self) -> None:
        await self.keep(set())


def is_listed(address: str, allowed: Sequence[str]) -> bool:
    """Return whether an administrator listed the host of a base address."""
    host = (urlsplit(address).hostname or "").rstrip(".")
    patterns = [pattern.lower().rstrip(".") for pattern in allowed]
    return any(
        host.endswith(one[1:]) if one.startswith("*.") else host == one.strip("[]")
        for one in patterns
    )
