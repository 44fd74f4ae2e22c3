"""Fetches an image over http(s) without letting a client reach what only the gateway can reach.

The name is resolved once, every address it has is checked, and the checked address is the one that
is connected to (a second lookup could answer differently); TLS still verifies the name. Redirects
are followed by hand, each checked like the first.

Proxies that the environment names are not used: they would resolve names themselves.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import certifi
import httpcore

from mm_api.documents.serving_plan import GatewayPlan
from mm_runtime.images.addresses import why_not_public
from mm_runtime.images.resolver import NoAddressError, Resolver, spelt_address
from mm_runtime.images.urls import Target, UrlRefusedError, join_redirect, parse_target

MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SHOWN = 40
"""Characters of a header that are repeated in a message."""
_HEADERS = ((b"User-Agent", b"multimodal-gateway"), (b"Accept", b"image/*"))


class FetchRefusedError(Exception):
    """The URL is not fetched, or what it answered is not used. The message is for the client."""


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What may be fetched. Both size and time hold for one image, redirects included."""

    allowed_hosts: tuple[str, ...]
    allow_private_networks: bool
    timeout_seconds: float
    max_bytes: int

    @classmethod
    def of(cls, plan: GatewayPlan) -> "FetchPolicy":
        """Return a plan's."""
        return cls(
            allowed_hosts=tuple(plan.allowed_hosts),
            allow_private_networks=plan.allow_private_networks,
            timeout_seconds=plan.fetch_timeout_seconds,
            max_bytes=plan.max_image_bytes,
        )


def _unbounded(count: int) -> None:
    """Hold any number of bytes."""


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the address it has just checked, whatever the name resolves to a moment later."""

    def __init__(self, resolver: Resolver, *, allow_private_networks: bool) -> None:
        self._resolver = resolver
        self._allow_private = allow_private_networks
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check every address, connect to the first that answers."""
        try:
            addresses = await self._resolver.addresses(host, port)
        except NoAddressError:
            if self._allow_private:
                raise FetchRefusedError(f"host {host!r} has no address") from None
            addresses = []
        if not self._allow_private:
            refuse_private(host, addresses)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise FetchRefusedError(f"could not connect to {host}:{port} ({failure})")


def refuse_private(host: str, addresses: Sequence[str]) -> None:
    """Refuse a host without an address, or when any of its addresses is not public.

    One private address among public ones is how a rebinding host looks, so all must be public. A
    name that has only private addresses and one that has none get the same message, so that the
    client learns no names of the cluster's own.
    """
    reasons = [reason for address in addresses if (reason := why_not_public(address))]
    if addresses and not reasons:
        return
    what = f"host {host!r} has no address, or one that is not public"
    if reasons and spelt_address(host):
        what = f"host {host!r} resolves to an address that is not public ({reasons[0]})"
    raise FetchRefusedError(
        f"{what}; images are fetched from public addresses only. Send the image as a data: URL "
        "instead, or request gateway.allowPrivateNetworks from the operator of this model"
    )


class ImageFetcher:
    """Fetches images by URL within one policy."""

    def __init__(
        self,
        policy: FetchPolicy,
        ssl_context: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or Resolver()
        authorities = os.environ.get("SSL_CERT_FILE") or certifi.where()
        self._ssl = ssl_context or ssl.create_default_context(cafile=authorities)

    async def fetch(self, url: str, hold: Callable[[int], None] = _unbounded) -> bytes:
        """Return the body behind a URL.

        `hold`: called with the bytes of each piece that arrives; what it raises ends the fetch.

        Raises:
            FetchRefusedError: the policy refuses it, or the host fails, answers another status
                than 200, too much or too late.
        """
        seconds = self._policy.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(url, hold)
        except TimeoutError:
            raise FetchRefusedError(
                f"the image was not fetched within {seconds:g} seconds"
            ) from None
        except UrlRefusedError as error:
            raise FetchRefusedError(str(error)) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise FetchRefusedError(
                f"the image could not be fetched ({type(error).__name__}: {error})"
            ) from error

    async def _follow(self, url: str, hold: Callable[[int], None]) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            target = parse_target(
                url,
                allowed_hosts=self._policy.allowed_hosts,
                any_port=self._policy.allow_private_networks,
            )
            # One pool a request: a connection is never reused for another client's URL.
            async with self._connections() as pool:
                answer = await self._get(pool, target, hold)
            if isinstance(answer, bytes):
                return answer
            url = answer
        raise FetchRefusedError(f"the image's URL redirects more than {MAX_REDIRECTS} times")

    def _connections(self) -> httpcore.AsyncConnectionPool:
        """Return a pool that reaches a target by a checked address."""
        backend = PinnedBackend(
            self._resolver, allow_private_networks=self._policy.allow_private_networks
        )
        return httpcore.AsyncConnectionPool(ssl_context=self._ssl, network_backend=backend)

    async def _get(
        self, pool: httpcore.AsyncConnectionPool, target: Target, hold: Callable[[int], None]
    ) -> bytes | str:
        """Return the body, or the URL a redirect points to."""
        location = httpcore.URL(
            scheme=target.scheme, host=target.host, port=target.port, target=target.path
        )
        headers = (
            (b"Host", target.authority.encode("ascii")),
            (b"Accept-Encoding", b"identity"),
            *_HEADERS,
        )
        async with pool.stream("GET", location, headers=headers) as response:
            if response.status in _REDIRECTS:
                return join_redirect(target, _header(response, b"location"))
            if response.status != HTTPStatus.OK:
                raise FetchRefusedError(
                    f"host {target.host!r} answered status {response.status} for the image"
                )
            return await self._read(response, hold)

    async def _read(self, response: httpcore.Response, hold: Callable[[int], None]) -> bytes:
        limit = self._policy.max_bytes
        declared = _header(response, b"content-length")
        if declared.isascii() and declared.isdigit() and int(declared) > limit:
            raise FetchRefusedError(
                f"the image has {declared} bytes, more than the limit of {limit}"
            )
        encoding = _header(response, b"content-encoding").strip()
        if encoding.lower() not in {"", "identity"}:
            raise FetchRefusedError(
                f"the host sent the image with Content-Encoding {encoding[:_SHOWN]!r}, though "
                "identity was requested"
            )
        body = bytearray()
        async for chunk in response.aiter_stream():
            hold(len(chunk))
            body += chunk
            if len(body) > limit:
                raise FetchRefusedError(f"the image has more bytes than the limit of {limit}")
        return bytes(body)


def _header(response: httpcore.Response, name: bytes) -> str:
    values = (value for key, value in response.headers if key.lower() == name)
    return next(values, b"").decode("latin-1")
