"""One Prometheus, or several that are replicas of each other: instant queries with deadlines.

The next address is queried when one fails, and the one that answered is first from then on. No
redirect is followed: the token would reach another server.

What a server answers is read up to a bound that follows from the query.
"""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from mm_operator.bodies import read_bounded
from mm_operator.scaling.answers import MetricsError, RefusedQueryError, error_text, is_answer

PODS_OF_A_QUERY = 100
"""An answer about them has at most 864 KiB: about 10 ms of parsing."""

_BASE_BYTES = 64 * 1024
"""For what frames an answer, or a text of an error."""

_POD_BYTES = 8 * 1024
"""Twice what the combined query answers for a pod with long names, 24 samples of 170 bytes."""

T = TypeVar("T")


def most_bytes(pods: int) -> int:
    """Return the most that an answer about so many pods may have.

    Parsing holds the interpreter's lock from the first byte to the last, in whatever thread it
    runs, so this bounds how long the loop that renews the Lease waits.
    """
    return _BASE_BYTES + _POD_BYTES * pods


def chunks(many: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(many), PODS_OF_A_QUERY):
        yield many[first : first + PODS_OF_A_QUERY]


REQUEST_SECONDS = 6.0
"""Two addresses fit into a tick of 15 s: the second one answers when the first hangs."""

_UNAUTHORIZED = frozenset({401, 403})
_CONNECTIONS = 8
_REFUSED_OURS = ("ALERT_CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA")
"""OpenSSL's names of what a server says that wanted another client certificate, or one at all."""
_SET_CERTIFICATE = "set tls.crt and tls.key in the Secret of chart value prometheus.secretName"


@dataclass(frozen=True, slots=True)
class OwnPrometheusSettings:
    """What flags say of the operator's own."""

    addresses: tuple[str, ...] = ()
    match_labels: tuple[tuple[str, str], ...] = ()
    credentials: str | None = None
    """Folder of a mounted Secret with some of `own_prometheus.KEYS`; None: no credentials."""
    server_name: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint(OwnPrometheusSettings):
    """With the credentials of that folder. Texts of Secrets never show in a repr."""

    ca: str = ""
    """Authorities as PEM; empty: the system's."""
    certificate: str = ""
    key: str = ""
    token: str = ""
    username: str = ""
    """With a password in place of a token."""
    password: str = ""

    def __repr__(self) -> str:
        return f"Endpoint({', '.join(self.addresses)})"


class Prometheus:
    """A client of one endpoint.

    Args:
        endpoint: where queries are sent.
        tls: how https is trusted; made by `trust`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        tls: ssl.SSLContext,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.endpoint = endpoint
        self._preferred = 0
        self._seconds = request_seconds
        self._session = aiohttp.ClientSession(
            # Not compressed and not unpacked: a bound on bytes is a bound on memory.
            headers={"Accept-Encoding": "identity", **_authorization(endpoint)},
            auto_decompress=False,
            connector=aiohttp.TCPConnector(ssl=tls, limit=_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=request_seconds),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def query(self, promql: str, pods: int = 0) -> Any:
        """Return Prometheus' answer to an instant query at its own present, unread.

        `pods`: how many it is about; the answer may be longer with each.

        Raises:
            MetricsError: no address gave an answer; the text is about the first that was queried.
        """
        addresses = self.endpoint.addresses
        first: MetricsError | None = None
        for turn in range(len(addresses)):
            place = (self._preferred + turn) % len(addresses)
            try:
                answer = await self._query(addresses[place], promql, pods)
            except RefusedQueryError:
                raise
            except MetricsError as error:
                first = first or error
            else:
                self._preferred = place
                return answer
        raise first or MetricsError("no address of Prometheus is set")

    def prefer_another(self) -> None:
        """Query the next address first: this one answered, but knows nothing."""
        self._preferred = (self._preferred + 1) % len(self.endpoint.addresses)

    async def _query(self, address: str, promql: str, pods: int) -> Any:
        url = f"{address.rstrip('/')}/api/v1/query"
        form = {"query": promql, "timeout": f"{self._seconds:.0f}s"}
        name = self.endpoint.server_name or None
        try:
            async with self._session.post(
                url, data=form, allow_redirects=False, server_hostname=name
            ) as answer:
                return await _read(answer, address, pods)
        except TimeoutError as error:
            raise MetricsError(
                f"Prometheus at {address} did not answer within {self._seconds:.0f} s"
            ) from error
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise MetricsError(
                f"Prometheus at {address} presents a certificate that is not trusted: set ca.crt "
                "in the Secret of chart value prometheus.secretName to the authority that signed it"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if any(alert in str(error) for alert in _REFUSED_OURS):
                raise MetricsError(
                    f"Prometheus at {address} requires a client certificate that it trusts: "
                    f"{_SET_CERTIFICATE}"
                ) from error
            if url.startswith("https:") and _is_cut(error):
                # In TLS 1.3 a server judges the certificate after the handshake; its reset can
                # overtake its alert.
                raise MetricsError(
                    f"Prometheus at {address} ended the connection without an answer "
                    f"({type(error).__name__}): where it requires a client certificate that it "
                    f"trusts, {_SET_CERTIFICATE}"
                ) from error
            raise MetricsError(
                f"Prometheus at {address} cannot be reached ({type(error).__name__})"
            ) from error


def _is_cut(error: Exception) -> bool:
    return isinstance(
        error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionError
    ) and not isinstance(error, aiohttp.ClientConnectorError)


def _authorization(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.username:
        pair = f"{endpoint.username}:{endpoint.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}


async def _read(answer: aiohttp.ClientResponse, address: str, pods: int) -> Any:
    if answer.status in _UNAUTHORIZED:
        raise MetricsError(
            f"Prometheus at {address} refused the credentials (HTTP {answer.status}): check "
            "the Secret of chart value prometheus.secretName"
        )
    if 300 <= answer.status < 400:  # noqa: PLR2004  # HTTP's redirects
        raise MetricsError(
            f"Prometheus at {address} redirects elsewhere: set prometheus.addresses to the final "
            "address"
        )
    body = await read_bounded(answer.content, most_bytes(pods))
    if body is None:
        raise MetricsError(
            f"{address} answered more than {most_bytes(pods) >> 10} KiB about {pods} pods: narrow "
            "it by prometheus.matchLabels"
        )
    try:
        document = await asyncio.to_thread(json.loads, body)
    except (ValueError, RecursionError) as error:
        raise MetricsError(
            f"{address} answered HTTP {answer.status} with something that is not JSON: is it "
            "Prometheus?"
        ) from error
    if not is_answer(document):
        raise MetricsError(
            f"{address} answered HTTP {answer.status} with something that is not an answer of "
            "Prometheus: check the address"
        )
    why = error_text(document)
    if not why and answer.status < 400:  # noqa: PLR2004  # the lowest error in HTTP
        return document
    refusal = f"Prometheus at {address} refused the query: {why or f'HTTP {answer.status}'}"
    if document.get("errorType") == "bad_data":
        raise RefusedQueryError(refusal)
    raise MetricsError(refusal)


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
