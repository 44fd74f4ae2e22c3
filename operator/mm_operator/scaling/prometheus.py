"""One Prometheus, or several that are replicas of each other: instant queries with deadlines.

The next address is asked when one fails, and the one that answered is asked first from then on. No
redirect is followed: the token would go where nobody sent it.
"""

import asyncio
import base64
import json
import ssl
from dataclasses import dataclass
from typing import Any

import aiohttp

from mm_operator.scaling.answers import MetricsError, error_text

REQUEST_SECONDS = 6.0
"""Two addresses fit into a tick of 15 s: the second one answers when the first hangs."""

_MOST_BYTES = 64 * 1024 * 1024
"""Ten times what two queries answer for 1,000 models of two pods."""

_UNAUTHORIZED = frozenset({401, 403})
_CONNECTIONS = 8
_REFUSED_OURS = ("ALERT_CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA")
"""OpenSSL's names of what a server says that wanted another client certificate, or one at all."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask and how to be trusted. Texts of Secrets never show in a repr."""

    addresses: tuple[str, ...]
    match_labels: tuple[tuple[str, str], ...] = ()
    ca: str = ""
    """Authorities as PEM; empty: the system's."""
    certificate: str = ""
    key: str = ""
    server_name: str = ""
    insecure: bool = False
    token: str = ""
    username: str = ""
    """With a password in place of a token."""
    password: str = ""

    def __repr__(self) -> str:
        """Return the addresses only."""
        return f"Endpoint({', '.join(self.addresses)})"


class Prometheus:
    """A client of one endpoint.

    Args:
        endpoint: where to ask.
        tls: how https is trusted; made by `mm_operator.scaling.trust`.
    """

    def __init__(
        self, endpoint: Endpoint, tls: ssl.SSLContext, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self.endpoint = endpoint
        self._preferred = 0
        self._seconds = request_seconds
        self._session = aiohttp.ClientSession(
            headers=_authorization(endpoint),
            connector=aiohttp.TCPConnector(ssl=tls, limit=_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=request_seconds),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def query(self, promql: str) -> Any:
        """Return Prometheus' answer to an instant query at its own present, unread.

        Raises:
            MetricsError: no address gave an answer; the text is about the first that was asked.
        """
        addresses = self.endpoint.addresses
        first: MetricsError | None = None
        for turn in range(len(addresses)):
            place = (self._preferred + turn) % len(addresses)
            try:
                answer = await self._ask(addresses[place], promql)
            except MetricsError as error:
                first = first or error
            else:
                self._preferred = place
                return answer
        raise first or MetricsError("no address of Prometheus is set")

    def prefer_another(self) -> None:
        """Ask the next address first: this one answered, but knows nothing."""
        self._preferred = (self._preferred + 1) % len(self.endpoint.addresses)

    async def _ask(self, address: str, promql: str) -> Any:
        url = f"{address.rstrip('/')}/api/v1/query"
        form = {"query": promql, "timeout": f"{self._seconds:.0f}s"}
        name = self.endpoint.server_name or None
        try:
            async with self._session.post(
                url, data=form, allow_redirects=False, server_hostname=name
            ) as answer:
                return await _read(answer, address)
        except TimeoutError as error:
            raise MetricsError(
                f"Prometheus at {address} did not answer within {self._seconds:.0f} s"
            ) from error
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise MetricsError(
                f"Prometheus at {address} shows a certificate that is not trusted: set "
                "prometheus.tls.caSecretRef to the authority that signed it (of the operator's "
                "own Prometheus: ca.crt in its Secret)"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if any(alert in str(error) for alert in _REFUSED_OURS):
                raise MetricsError(
                    f"Prometheus at {address} wants a certificate of ours that it knows: set "
                    "prometheus.tls.clientSecretRef (of the operator's own Prometheus: tls.crt and "
                    "tls.key in its Secret)"
                ) from error
            raise MetricsError(
                f"Prometheus at {address} cannot be reached ({type(error).__name__})"
            ) from error


def _authorization(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.username:
        pair = f"{endpoint.username}:{endpoint.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}


async def _read(answer: aiohttp.ClientResponse, address: str) -> Any:
    """Return the document of an answer."""
    if answer.status in _UNAUTHORIZED:
        raise MetricsError(
            f"Prometheus at {address} refused the credentials (HTTP {answer.status}): check "
            "prometheus.tokenSecretRef or basicAuthSecretRef (of the operator's own Prometheus: "
            "the Secret of chart value prometheus.secretName)"
        )
    if 300 <= answer.status < 400:  # noqa: PLR2004  # HTTP's redirects
        raise MetricsError(
            f"Prometheus at {address} redirects elsewhere: set prometheus.addresses to the final "
            "address"
        )
    body = await _bounded(answer, address)
    try:
        # Megabytes for 1,000 models: parsed beside the loop that also renews the Lease.
        document = await asyncio.to_thread(json.loads, body)
    except (ValueError, RecursionError) as error:
        raise MetricsError(
            f"{address} answered HTTP {answer.status} with something that is no JSON: is it "
            "Prometheus?"
        ) from error
    if answer.status >= 400:  # noqa: PLR2004  # the border between answers and errors in HTTP
        why = error_text(document) or f"HTTP {answer.status}"
        raise MetricsError(f"Prometheus at {address} refused the query: {why}")
    return document


async def _bounded(answer: aiohttp.ClientResponse, address: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise MetricsError(
                f"{address} answered more than {_MOST_BYTES >> 20} MiB: narrow it by "
                "prometheus.matchLabels"
            )
    return bytes(body)
