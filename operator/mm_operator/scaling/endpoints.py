"""From `spec.autoscaling.prometheus` to clients, one for each distinct endpoint.

A spec names servers that the administrator lists, and no credentials: what only the operator
reaches, and what it may read, is not for specs.
"""

import asyncio
import ssl
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from mm_api.v1alpha1 import PrometheusSpec
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.prometheus import Endpoint, Prometheus


def trust(endpoint: Endpoint) -> ssl.SSLContext:
    """Return how https is trusted, with our own certificate where there is one.

    Raises:
        MetricsError: a certificate is damaged.
    """
    if not (endpoint.ca or endpoint.certificate or endpoint.insecure):
        return _of_the_image()
    if not endpoint.certificate:
        return _context(endpoint)
    with tempfile.TemporaryDirectory() as folder:  # mode 0700, gone before the first query
        file = Path(folder) / "client.pem"
        file.write_text(f"{endpoint.certificate}\n{endpoint.key}\n")
        return _context(endpoint, str(file))


@cache
def _of_the_image() -> ssl.SSLContext:
    # To read all public authorities takes 20 ms of a core.
    return ssl.create_default_context()


def _context(endpoint: Endpoint, key_file: str = "") -> ssl.SSLContext:
    # Authorities may be texts; the library reads our own certificate and its key from files only.
    try:
        context = ssl.create_default_context(cadata=endpoint.ca or None)
        if key_file:
            context.load_cert_chain(key_file)
    except (ssl.SSLError, ValueError) as error:
        raise MetricsError(
            "a certificate of Prometheus' Secret cannot be read: it must be PEM, the key beside it"
        ) from error
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


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
